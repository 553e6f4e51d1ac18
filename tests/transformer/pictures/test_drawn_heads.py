"""Pictures: strong weights are strong lines, and the same picture is the same file."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from small_trials import SMALL

from transformer.faults import FaultyError
from transformer.pictures.choice import FORMATS, Choice, Kind, choose
from transformer.pictures.heat_maps import draw_heat_maps
from transformer.pictures.picture import Picture
from transformer.pictures.reading import Pair, Reading
from transformer.pictures.sketch import head_color, width_of
from transformer.pictures.svg import svg
from transformer.pictures.words import Words

TEXTS = ("<b>", "its", "漢字", "</s>")
HEADS = 3


def words(texts: tuple[str, ...]) -> Words:
    return Words(texts, tuple(range(i, i + 1) for i in range(len(texts))))


def picture(only: tuple[int, ...] = (), heads: tuple[int, ...] = (1, 2, 3)) -> Picture:
    """Two layers; each query reads itself with 0.75, and the first key besides."""
    weights = np.zeros((2, HEADS, 4, 4))
    weights[..., range(4), range(4)] += 0.75
    weights[..., 0] += 0.25
    reading = Reading(words(TEXTS), words(TEXTS), weights)
    pair = Pair([5, 3], [6, 3], "<i>Ziel</i>", True)
    choice = Choice(Kind.encoder, 1, heads)
    return Picture("<b> its", pair, {Kind.encoder: reading}, choice, only=only)


def drawn_lines(content: bytes) -> dict[tuple[str, str], int]:
    """How many lines there are, by color and opacity."""
    root = ElementTree.fromstring(content)
    (lines,) = root.iterfind(".//*[@class='lines']")
    return {
        (path.attrib["stroke"], path.attrib["stroke-opacity"]): path.attrib["d"].count("M")
        for path in lines
    }


def test_lines_are_as_strong_as_weights_in_the_colors_of_their_heads() -> None:
    expected = {}
    for head in range(1, HEADS + 1):
        expected[head_color(head), "0.75"] = 3
        expected[head_color(head), "1"] = 1
        expected[head_color(head), "0.25"] = 3
    assert drawn_lines(picture().content(".svg")) == expected
    some = picture(only=(2,), heads=(2,)).content(".svg")
    assert drawn_lines(some) == {(head_color(2), "0.75"): 1, (head_color(2), "0.25"): 1}
    assert len({head_color(head) for head in range(1, 33)}) == 32


def test_words_are_text_and_the_asked_one_is_bold() -> None:
    root = ElementTree.fromstring(picture(only=(1,)).content(".svg"))
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert [texts.count(text) for text in TEXTS] == [2] * 4
    bold = [element.text for element in root.iter() if "font-weight" in element.attrib]
    assert bold == ["its"]


def test_the_grid_has_a_map_for_each_layer_and_head() -> None:
    content = picture().content(".svg", as_grid=True).decode()
    assert content.count('stroke-width=".5"') == 2 * HEADS
    cells = re.findall(r'fill-opacity="0.75" d="([^"]*)"', content)
    assert sum(path.count("M") for path in cells) == 2 * HEADS * 3


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("as_grid", [False, True])
def test_the_same_picture_is_the_same_file(ending: str, as_grid: bool) -> None:
    starts = {".html": b"<!doctype html>", ".svg": b"<svg", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    content = picture().content(ending, as_grid=as_grid)
    assert content.startswith(starts[ending])
    assert content == picture().content(ending, as_grid=as_grid)


def test_a_page_needs_nothing_from_elsewhere_and_runs_nothing_of_the_text() -> None:
    page = picture().content(".html", about="Model: <u>x</u>.").decode()
    addresses = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert addresses == ["data:,"]
    assert [page.count(tag) for tag in ("<b>", "<i>", "<u>")] == [0, 0, 0]
    assert "The model's own translation" in page.replace("&#39;", "'")


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"layer": 3}, r"--layer: is 3; must be 1 to 2: the model has 2 layers\."),
        ({"layer": 0}, r"--layer: is 0; must be 1 to 2"),
        ({"heads": "1,3"}, r'--head: is "1,3"; must be 1 to 2: the model has 2 heads'),
        ({"heads": "one"}, r'--head: is "one"; must be 1 to 2'),
        ({"heads": ""}, r'--head: is ""; must be 1 to 2'),
    ],
)
def test_a_layer_or_head_that_the_model_lacks_is_refused(
    options: dict[str, int | str], fault: str
) -> None:
    with pytest.raises(FaultyError, match=fault):
        choose(SMALL, **options)  # type: ignore[arg-type]


def test_a_kind_that_the_model_lacks_is_refused_with_those_that_it_has() -> None:
    from dataclasses import replace

    model = replace(SMALL, encoder_layer="recurrent", n_layers=1)
    fault = (
        "--kind: is encoder, but the model has recurrent encoder layers; must be decoder or cross"
    )
    with pytest.raises(FaultyError, match=fault):
        choose(model, Kind.encoder)
    assert choose(model) == Choice(Kind.decoder, 1, (1, 2))
    assert choose(SMALL, heads="2,1,2") == Choice(Kind.encoder, 1, (2, 1))


def labels_of(content: bytes) -> list[tuple[float, float, str]]:
    """x, y and text of each label of an SVG."""
    root = ElementTree.fromstring(content)
    texts = [element for element in root.iter() if element.tag.endswith("text")]
    return [(float(text.get("x", "")), float(text.get("y", "")), text.text or "") for text in texts]


@pytest.mark.parametrize("length", [1, 2, 3, 12])
def test_the_name_of_a_head_or_layer_never_reaches_the_next_one(length: int) -> None:
    texts = words(("a",) * length)
    weights = np.full((12, 12, length, length), 1 / length)
    reading = Reading(texts, texts, weights)
    sketch = draw_heat_maps(reading, Kind.encoder)
    labels = labels_of(svg(sketch).encode())
    starts = [x for x, _, text in labels if text.startswith("head ")]
    longest = width_of(["head 12"], 8.0)
    square = 9  # of the next head's color, with the space behind it
    assert min(np.diff(starts)) >= longest + square
    assert starts[-1] + longest <= sketch.width
    middles = [y for _, y, text in labels if text.startswith("layer ")]
    assert min(np.diff(middles)) >= width_of(["layer 12"], 8.0)
    assert max(y for _, y, _ in labels) <= sketch.height


def test_wide_letters_stay_within_the_picture() -> None:
    from matplotlib.textpath import TextPath

    for text in ("MMMMMMMM", "WWWWWWWW", "m" * 60, "HÄUSERGRUPPE", "Feuerwehrmannschaft"):
        drawn = TextPath((0, 0), text, size=9.5).get_extents().width
        assert drawn <= width_of([text], 9.5), text


def test_letters_that_xml_cannot_hold_are_replaced() -> None:
    texts = words(("man\x00\x1b[31m", "\uffff", "😀"))
    reading = Reading(texts, texts, np.full((1, 1, 3, 3), 1 / 3))
    content = svg(draw_heat_maps(reading, Kind.encoder)).encode()
    assert "man��[31m" in [text for _, _, text in labels_of(content)]
    assert "😀" in content.decode()
