"""A trial that shares a place for checkpoints with another trains from its own beginning, and says what it left."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_text import TEXT
from studies import SMALL, lines
from typed import typed

from sweeps.planning.continued import plan_row
from sweeps.planning.plan import recorded
from sweeps.running.recorder import Recorder
from tracking.study import write_study

pytestmark = pytest.mark.slow

WORDS = ["train", *SMALL, *TEXT, "train.steps=60", "train.checkpoint_every=20"]


@pytest.fixture
def shared(workplace: Path) -> list[str]:
    """Of both trials of the same name, one after the other."""
    return [*WORDS, "sweep.name=shared", f"paths.checkpoints={workplace / 'elsewhere'}"]


def result(trial: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((trial / "result.json").read_text())
    return content


def losses(trial: Path) -> dict[int, float]:
    return {line["step"]: line["metrics"]["train/loss"] for line in lines(trial / "journal.jsonl")}


def interrupted(folder: Path, *words: str) -> None:
    """What a first attempt leaves that ends before its first checkpoint."""
    planned = plan_row(list(words), here=folder)
    write_study(recorded(planned, ["allelse", "train", *words]))
    recorder = Recorder(planned.pending[0])
    recorder.begin()
    recorder.end("interrupted")


def test_a_changed_trial_does_not_go_on_from_the_one_before_it(shared: list[str], workplace: Path) -> None:
    trial, changed = workplace / "runs" / "shared" / "base-s1", "train.lr_factor=0.3"
    first = typed(workplace, *shared)
    assert first.exit_code == 0, first.output
    before = result(trial)
    shutil.rmtree(trial)
    interrupted(workplace, *shared[1:], changed)
    again = typed(workplace, *shared, changed)
    assert again.exit_code == 0, again.output
    undisturbed = typed(workplace, *WORDS, changed, "sweep.name=alone")
    assert undisturbed.exit_code == 0, undisturbed.output
    alone, after = workplace / "runs" / "alone" / "base-s1", result(trial)
    assert after["scores"] == result(alone)["scores"]
    assert after["key"] == result(alone)["key"] != before["key"]
    assert losses(trial) == losses(alone)
    assert list(losses(trial)) == list(range(10, 70, 10))
    assert {line["attempt"] for line in lines(trial / "journal.jsonl")} == {2}
    kept = {path.name for path in (workplace / "elsewhere" / "shared" / "base-s1").iterdir()}
    assert kept == {before["key"][:16], after["key"][:16]}
