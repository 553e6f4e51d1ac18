"""What is valid but rarely meant is said in a plan, before it offers to start, and at the beginning
of a training."""

from pathlib import Path

import pytest
from small_text import TEXT, sentences, write_text
from studies import SMALL
from typed import printed

PAIRS = 20
VOCABULARY = "this is the paper's scale, but data.vocab_size is"


def plan(folder: Path, *words: str) -> str:
    """All that is printed before the next command, on one line."""
    output, _, next_command = " ".join(printed(folder, "plan", *words).split()).partition("Next: ")
    assert next_command
    return output


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        (
            [],
            [
                "100000 steps are about 16,938 epochs of 12,000 training pairs",
                "about 50,813 epochs",
            ],
        ),
        (["data=multi30k"], ["about 5,709 epochs of 29,000 training pairs", "about 17,127 epochs"]),
        (["data=multi30k", "train.steps=5000"], ["about 285 epochs of 29,000"]),
        (["data=multi30k", "train.steps=3000"], []),
    ],
)
def test_the_paper_s_scale_is_cautioned_against_a_small_text(
    tmp_path: Path, words: list[str], epochs: list[str]
) -> None:
    rows = "sweep.rows=[base]" if "train.steps" in str(words) else "sweep.rows=[base,big]"
    output = plan(tmp_path, "scale=paper", rows, *words)
    assert all(epoch in output for epoch in epochs)
    assert output.count("training pairs") == len(epochs)
    size = 8000 if "data=multi30k" in words else 1000
    assert f"{VOCABULARY} {size} " in output


def test_no_other_scale_has_a_caution(tmp_path: Path) -> None:
    for scale in ("half", "tiny"):
        for corpus in ("synthetic", "multi30k"):
            output = plan(tmp_path, f"scale={scale}", f"data={corpus}", "sweep.rows=all")
            assert "training pairs" not in output
            assert VOCABULARY not in output


def test_the_paper_s_vocabulary_has_no_caution(tmp_path: Path) -> None:
    output = plan(
        tmp_path, "scale=paper", "data=multi30k", "data.vocab_size=37000", "sweep.rows=all"
    )
    assert VOCABULARY not in output


@pytest.mark.slow
def test_pairs_of_one_s_own_text_are_counted(workplace: Path) -> None:
    """From its files, and once they are prepared from the pieces; a training says so before it
    starts, and once."""
    write_text(workplace)
    (workplace / "train.txt").write_text(sentences(PAIRS, seed=1))
    words = [*SMALL, *TEXT, "train.steps=201", "sweep.name=own"]
    caution = f"201 steps are about 201 epochs of {PAIRS} training pairs"
    assert caution in plan(workplace, *words, "sweep.rows=[base]")
    output = printed(workplace, "train", *words, "tracking=off")
    assert output.count(caution) == 1
    assert output.index(caution) < output.index("1 of 1 trials to run")
    assert output.index(caution) < output.index("Preparing")
