"""`make study`: lock, train and publish Table 3 from nothing, here with two rows of small
trials."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from served_commands import PROGRAM

from sweeps.planning.continuation import plan_sweep
from tracking.published_study import MARK
from tracking.study_lock import read_lock

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = ROOT / "Makefile"
SIZES = "train.steps=20 train.warmup_steps=10 train.evaluate_every=20 train.checkpoint_every=20"
SMALL = {
    "BIN": str(PROGRAM.parent),
    "DATA": "data=synthetic",
    "SCALE": "tiny",
    "STUDY": "small",
    "ROWS": "base,a_heads_1",
    "SEEDS": "[1]",
    "BASE_SEEDS": "[1]",
    "SETS": "dev",
    "ARGS": f"{SIZES} decode.average_every=20 cluster=local",
}


@pytest.mark.parametrize("scale", ["half", "quarter"])
def test_its_trials_are_those_of_the_published_study(
    scale: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["make", "-n", "-f", str(MAKEFILE), "--assume-old=install", "study"]
    process = subprocess.run(
        [*command, f"SCALE={scale}", "DIR=text"], capture_output=True, text=True, check=True
    )
    (sweep,) = [line for line in process.stdout.splitlines() if "/allelse sweep " in line]
    monkeypatch.chdir(tmp_path)
    planned = plan_sweep(shlex.split(sweep)[2:]).trials
    lock = json.loads((ROOT / "studies" / f"multi30k-{scale}" / "lock.json").read_text("utf-8"))
    locked = {(trial["row"], trial["seed"]): trial["key"] for trial in lock["trials"]}
    assert {(trial.trial.row, trial.trial.seed): trial.trial.key for trial in planned} == locked


def make_study(folder: Path) -> str:
    values = [f"{name}={value}" for name, value in SMALL.items()]
    command = ["make", "-f", str(MAKEFILE), "--assume-old=install", "study", *values]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


@pytest.mark.ray
@pytest.mark.slow
def test_a_study_is_locked_trained_and_published_and_its_published_copy_needs_no_training(
    tmp_path: Path,
) -> None:
    first = make_study(tmp_path)
    assert "Locked 2 trials of 2 rows; ppl, bleu, bleu_paper, chrf, accuracy on dev" in first
    published = tmp_path / "reproduced" / "small"
    assert "Follows its lock of " in " ".join((published / "table.md").read_text().split())
    assert sorted(path.parent.name for path in published.glob("*/result.json")) == [
        "a_heads_1-s1",
        "base-s1",
    ]
    lock = read_lock(published)
    copy = tmp_path / "runs" / "small"
    shutil.rmtree(copy)
    shutil.copytree(published, copy, ignore=shutil.ignore_patterns(MARK))
    assert "2 of 2 trials are finished, 0 new or changed" in make_study(tmp_path)
    assert read_lock(published) == lock
    assert not any(copy.glob("*/checkpoints")), "nothing was trained again"
