"""A trial that shares a place for checkpoints with an earlier one of its name trains from its own beginning."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_text import TEXT
from studies import SMALL, lines
from typed import typed

pytestmark = pytest.mark.slow

WORDS = ["train", *SMALL, *TEXT, "train.steps=40", "train.checkpoint_every=20"]


def trained(folder: Path, *words: str) -> tuple[dict[str, Any], dict[int, float]]:
    """Its result, and its losses by step."""
    done = typed(folder, *WORDS, *words)
    assert done.exit_code == 0, done.output
    (name,) = (word.removeprefix("sweep.name=") for word in words if word.startswith("sweep.name="))
    trial = folder / "runs" / name / "base-s1"
    losses = {line["step"]: line["metrics"]["train/loss"] for line in lines(trial / "journal.jsonl")}
    return json.loads((trial / "result.json").read_text()), losses


def test_a_changed_trial_does_not_go_on_from_the_one_before_it(workplace: Path) -> None:
    shared, changed = ("sweep.name=shared", f"paths.checkpoints={workplace / 'elsewhere'}"), "train.lr_factor=0.3"
    before, _ = trained(workplace, *shared)
    shutil.rmtree(workplace / "runs/shared")
    after, losses = trained(workplace, *shared, changed)
    alone, undisturbed = trained(workplace, "sweep.name=alone", changed)
    assert (after["scores"], losses) == (alone["scores"], undisturbed)
    assert after["key"] == alone["key"] != before["key"]
    kept = {path.name for path in (workplace / "elsewhere/shared/base-s1").iterdir()}
    assert kept == {before["key"][:16], after["key"][:16]}
