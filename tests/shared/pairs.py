"""Sweeps of one translation trial with two workers: how they begin, and what is left of them once they have ended."""

from pathlib import Path

from leftovers import check_no_locks, wait_for_end
from same_results import check_same_results
from small_text import TEXT
from studies import SMALL, Running, allelse

STEPS, EVERY = 240, 20
WORDS = [
    *SMALL,
    *TEXT,
    f"train.steps={STEPS}",
    f"train.checkpoint_every={EVERY}",
    "train.log_every=10",
    "sweep.rows=[base]",
    "sweep.name=pair",
    "cluster.workers=2",
]


def trial_in(folder: Path) -> Path:
    return folder / "runs" / "pair" / "base-s1"


def start(folder: Path, *more: str) -> Running:
    return Running.start("sweep", *WORDS, *more, cwd=folder, trial=trial_in(folder))


def finish(folder: Path, *more: str) -> Path:
    """Type the command, which must finish; returns the trial."""
    done = allelse("sweep", *WORDS, *more, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return trial_in(folder)


def check_same(found: Path, expected: Path) -> None:
    """Result, weights, moments, journal and MLflow are those of the undisturbed trial, and each step is there once."""
    check_same_results(found.parent, expected.parent)


def check_nothing_left(folder: Path) -> None:
    """No process, no lock, no announcement."""
    wait_for_end(folder)
    check_no_locks(folder / "runs" / "pair")
