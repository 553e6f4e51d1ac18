"""A trial that shares a place for checkpoints with another trains from its own beginning, and says what it left."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_text import TEXT
from studies import SMALL, Running, lines, wait_until
from typed import typed

pytestmark = pytest.mark.slow

WORDS = ["train", *SMALL, *TEXT, "train.steps=60", "train.checkpoint_every=20"]
PATIENCE = 600


@pytest.fixture
def shared(workplace: Path) -> list[str]:
    """Of both trials of the same name, one after the other."""
    return [*WORDS, "sweep.name=shared", f"paths.checkpoints={workplace / 'elsewhere'}"]


def result(trial: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((trial / "result.json").read_text())
    return content


def losses(trial: Path) -> dict[int, float]:
    return {line["step"]: line["metrics"]["train/loss"] for line in lines(trial / "journal.jsonl")}


def test_a_changed_trial_does_not_go_on_from_the_one_before_it(shared: list[str], workplace: Path) -> None:
    trial, changed = workplace / "runs" / "shared" / "base-s1", "train.lr_factor=0.3"
    first = typed(workplace, *shared)
    assert first.exit_code == 0, first.output
    before = result(trial)
    shutil.rmtree(trial)
    running = Running.start(*shared, changed, cwd=workplace, trial=trial)
    wait_until((trial / "attempts.jsonl").exists, "the attempt", PATIENCE)
    running.kill()
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
    notice = f"skipped the checkpoints of trial {before['key'][:16]}"
    assert notice in again.stdout
    kept = {path.name for path in (workplace / "elsewhere" / "shared" / "base-s1").iterdir()}
    assert kept == {before["key"][:16], after["key"][:16]}
