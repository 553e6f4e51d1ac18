"""`allelse attention`: a picture for each kind of model, or a refusal that says what there is."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import printed, refusal

TRIAL = "copies/base-s1"
SENTENCE = "a b c-d a"
CHROMIUM = "/usr/bin/chromium"


def page_of(folder: Path, *words: str) -> str:
    """The page that the command writes."""
    printed(folder, "attention", *words, "--output", "page.html")
    return (folder / "page.html").read_text("utf-8")


def data_of(page: str) -> list[dict[str, Any]]:
    """What the page knows of each kind of attention."""
    return [json.loads(text) for text in re.findall(r'application/json">(.*?)</script>', page)]


def weights_of(data: dict[str, Any]) -> Any:
    """[layers, heads, queries, keys], in 255 steps."""
    shape = (data["layers"], data["heads"], len(data["queries"]), len(data["keys"]))
    return np.frombuffer(base64.b64decode(data["weights"]), np.uint8).reshape(shape) / 255


def test_a_page_has_all_kinds_and_says_whose_translation_it_is(trained: Path) -> None:
    said = printed(trained, "attention", TRIAL, SENTENCE)
    assert said.splitlines() == [
        f"The model's translation: {SENTENCE}",
        "Wrote attention.html: Encoder self-attention; Decoder self-attention; "
        "Decoder's attention to the encoder",
    ]
    page = (trained / "attention.html").read_text("utf-8").replace("&#39;", "'")
    assert f"The model's own translation: <strong>{SENTENCE}</strong>" in page
    assert "trained on files, en to de, 400 steps" in page
    encoder, decoder, cross = data_of(page)
    source = ["a", "b", "c-d", "a", "</s>"]
    assert (encoder["queries"], encoder["keys"]) == (source, source)
    assert decoder["queries"] == decoder["keys"] == ["<s>", *source[:-1]]
    assert (cross["queries"], cross["keys"]) == (source, source)
    for data in (encoder, decoder, cross):
        rounding = 0.5 / 255 * len(data["keys"])
        assert np.abs(weights_of(data).sum(-1) - 1).max() <= rounding + 1e-6
    assert not np.triu(weights_of(decoder)[0, 0], 1).any(), "the decoder reads no later word"


def test_a_trial_a_checkpoint_and_an_exported_folder_give_their_weights(
    trained: Path, trial: Path, attempt: Path
) -> None:
    printed(trained, "export", TRIAL, "--to", "safetensors", "--output", "exported")
    whole = weights_of(data_of(page_of(trained, TRIAL, SENTENCE))[0])
    for name in ("exported", str(trial), str(attempt / "step-400")):
        assert (weights_of(data_of(page_of(trained, name, SENTENCE))[0]) == whole).all(), name
    earlier = page_of(trained, str(attempt / "step-200"), SENTENCE)
    assert (weights_of(data_of(earlier)[0]) != whole).any()
    assert "copies/base-s1 at step 200" in earlier


def test_a_grid_is_named_as_such_and_refuses_a_choice_with_every_other_fault(
    trained: Path,
) -> None:
    said = printed(trained, "attention", TRIAL, SENTENCE, "--grid", "--output", "grid.svg")
    assert said.splitlines()[-1] == "Wrote grid.svg: Encoder self-attention, all layers and heads"
    words = ["--grid", "--word", "a", "--layer", "9", "--output", "no/x.svg"]
    message = refusal(trained, "attention", TRIAL, SENTENCE, *words)
    for fault in ("--output no is not", "--word is given with --grid", "--layer is 9"):
        assert fault in message


def test_a_target_a_kind_a_word_and_pieces_are_as_asked(trained: Path) -> None:
    page = page_of(
        trained, TRIAL, SENTENCE, "--target", "d = e", "--kind", "cross", "--head", "2,4"
    )
    (cross,) = data_of(page)
    assert cross["queries"] == ["d", "=", "e", "</s>"]
    assert cross["shown"] == [2, 4]
    assert "The target, as given: <strong>d = e</strong>" in page
    page = page_of(trained, TRIAL, SENTENCE, "--word", "a:2", "--word", "c-d", "decode.beam=1")
    assert re.findall(r'font-weight="bold" data-name="(.*?)"', page) == ["query-2", "query-3"]
    (encoder, *_) = data_of(page_of(trained, TRIAL, SENTENCE, "--pieces"))
    assert len(encoder["queries"]) > 5
    assert "".join(encoder["queries"]) == "▁a▁b▁c-d▁a</s>"


def test_the_ending_of_the_output_says_the_format(trained: Path) -> None:
    starts = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}
    for ending, start in starts.items():
        for options in ([], ["--grid"]):
            output = f"picture.{ending}"
            printed(trained, "attention", TRIAL, SENTENCE, *options, "--output", output)
            assert (trained / output).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([SENTENCE, "--layer", "2"], "--layer is 2 must be 1: the model has 1 layer"),
        ([SENTENCE, "--head", "5"], '--head is "5" must be 1 to 4: the model has 4 heads'),
        ([], "SENTENCE is missing must follow the trial, in quotes"),
        ([""], "SENTENCE is empty must be a sentence"),
        (["  \n"], "SENTENCE is empty must be a sentence"),
        ([SENTENCE, "--target", " "], "--target is empty must be a sentence"),
        (["a " * 40], "SENTENCE has 41 pieces, with end-of-sentence must have at most 40"),
        (
            [SENTENCE, "--word", "e"],
            '--word names "e" must be one of a b c-d a </s>',
        ),
        (
            [SENTENCE, "--word", "a:3"],
            '--word names "a:3", but the sentence has 2 of "a" must be one of a b c-d a </s>',
        ),
        ([SENTENCE, "more"], "TRIAL names 2: copies/base-s1, more must name one trial or folder"),
        (
            [SENTENCE, "--output", "x.jpg"],
            "--output is x.jpg must end in .html, .svg, .pdf or .png",
        ),
        ([SENTENCE, "--output", "no/x.svg"], "--output no is not a folder"),
        ([SENTENCE, "decode.baem=2"], "did you mean decode.beam?"),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_is_written(
    trained: Path, words: list[str], said: str
) -> None:
    (trained / "attention.html").unlink(missing_ok=True)
    assert said in refusal(trained, "attention", TRIAL, *words)
    assert not (trained / "attention.html").exists()


@pytest.fixture
def opened(trained: Path) -> Iterator[Any]:
    """A page in Debian's Chromium, with everything that it complained about."""
    from playwright.sync_api import sync_playwright

    page_of(trained, TRIAL, SENTENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1400, "height": 900})
        shown.heard = heard = list[str]()
        for kind in ("console", "pageerror"):
            shown.on(kind, lambda event: heard.append(str(event)))
        shown.goto((trained / "page.html").as_uri())
        yield shown
        browser.close()


@pytest.mark.browser
def test_the_pointer_shows_weights_and_a_click_draws_one_head(opened: Any) -> None:
    opened.hover("#encoder [data-name=query-2]")
    tip = opened.inner_text("#tip")
    assert tip.startswith("c-d, layer 1\nhead 1: reads ")
    lines = opened.locator("#encoder .drawn path")
    (height,) = {path.get_attribute("d").split("L")[0].split()[1] for path in lines.all()[:1]}
    assert float(height) > 0
    (x, y), cell = opened.evaluate(
        "() => { const text = document.querySelector('#encoder script').textContent;"
        " const { grid } = JSON.parse(text); return [grid.corners[0][2], grid.cell]; }"
    )
    maps = opened.locator("#encoder .maps svg")
    scale = maps.bounding_box()["width"] / float(maps.get_attribute("viewBox").split()[2])
    place = {"x": (x + 1.5 * cell) * scale, "y": (y + 0.5 * cell) * scale}
    maps.hover(position=place)
    assert opened.inner_text("#tip").startswith("layer 1, head 3: a reads b ")
    maps.click(position=place)
    colors = {path.get_attribute("stroke") for path in lines.all()}
    assert colors == {"#009e73"}, "the third head's"
    title = opened.locator("#encoder [data-name=title]")
    assert title.text_content() == "Encoder self-attention, layer 1 of 1, head 3"
    maps.click(position=place)
    assert lines.count() == 0
    assert opened.heard == []
