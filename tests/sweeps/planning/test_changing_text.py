"""Text that changes while a study runs changes no score, and text without usable pairs starts
nothing."""

import json
import os
from pathlib import Path

import pytest
from joined_ray import JoinedRay
from small_text import LETTERS, TEXT, sentences, write_text
from studies import SMALL, Running, wait_until
from typed import typed

LONG = " ".join(LETTERS * 10) + "\n"
DATA = [*TEXT, "sweep.name=own", "model.max_positions=64"]
STEPS = ["train.steps=30", "train.checkpoint_every=20"]


def reference_pieces(trial: Path, name: str) -> list[int]:
    """How many pieces each reference has that the trial was scored with."""
    _, *lines = (trial / "statistics" / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line)["pieces"] for line in lines]


@pytest.mark.ray
@pytest.mark.slow
def test_text_that_changes_while_rows_are_trained_changes_no_score(
    workplace: Path, joined_ray: JoinedRay
) -> None:
    """``dev`` is changed and ``test`` is gone before the second row is scored."""
    rows = ("base", "e_learned_positions")
    words = [*SMALL, *DATA, *STEPS, f"sweep.rows=[{','.join(rows)}]", "tracking=off"]
    trials = [workplace / "runs" / "own" / f"{row}-s1" for row in rows]
    environment = os.environ | joined_ray.environment
    running = Running.start(
        "sweep", *words, *joined_ray.one_by_one, cwd=workplace, trial=trials[0], env=environment
    )
    wait_until(
        lambda: running.ended() or any((trial / "provenance.json").exists() for trial in trials),
        "a row",
        600,
    )
    with (workplace / "train.txt").open("a") as file:
        file.write(sentences(50, seed=9))
    (workplace / "dev.txt").write_text((workplace / "dev.txt").read_text().replace("\n", " h\n", 1))
    (workplace / "test.txt").unlink()
    # the other row comes after the change
    assert not all((trial / "provenance.json").exists() for trial in trials)
    code, output = running.finish(timeout=600)
    assert code == 0, output
    for name in ("dev", "test"):
        first, second = (reference_pieces(trial, name) for trial in trials)
        assert len(first) == 6
        assert first == second
    assert {
        json.loads((trial / "provenance.json").read_text())["pairs"]["train"] for trial in trials
    } == {300}
    evaluated = typed(workplace, "evaluate", str(trials[1]), "--json")
    assert evaluated.exit_code == 0, evaluated.stderr


def test_a_study_of_which_hardly_a_pair_is_left_is_refused_before_it_starts(tmp_path: Path) -> None:
    """Without a database: a refused study leaves no `runs/`."""
    folder = write_text(tmp_path)
    (folder / "train.txt").write_text("a b\n" + LONG * 299)
    outcome = typed(folder, "train", *SMALL, *DATA, *STEPS)
    assert outcome.exit_code == 2, outcome.output
    assert (
        "is 64; 299 of 300 training pairs are left out: 299 longer than model.max_positions (64)"
        in outcome.stderr
    )
    assert "Nothing was started." in outcome.stderr
    assert not (folder / "runs").exists()
