"""The example task without a network: its sweep needs no torch, and one trial runs in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from studies import allelse
from typed import typed

from allelse import load
from examples import EXAMPLES, copied

WATCHED = """
import wine


def work(trial):
    wine.work(trial)
    import sys
    trial.notice("with torch" if "torch" in sys.modules else "without torch")


import dataclasses
task = dataclasses.replace(wine.task, work=work)
"""
LIMITS = {"digits": (70, 30), "wine": (30, 10)}
"""Lines of Python and of YAML."""


@pytest.fixture
def folder(furnish: Callable[[Path], Path], tmp_path: Path) -> Path:
    return copied("wine", furnish(tmp_path))


def test_one_trial_in_this_process(folder: Path) -> None:
    done = typed(folder, "train", "task=wine", "row=raw")
    assert done.exit_code == 0, done.output
    (score,) = load(folder / "runs" / "wine-full").scores["value"]
    assert 0.5 < score < 0.9
    again = typed(folder, "train", "sweep.name=wine-full", "row=raw")
    assert "0 of 1 trials to run" in again.stdout


def test_its_trial_loads_no_torch(folder: Path) -> None:
    (folder / "watched.py").write_text(WATCHED)
    done = allelse("train", "task=watched", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "without torch" in done.stdout + done.stderr


@pytest.mark.parametrize("name", LIMITS)
def test_examples_are_short(name: str) -> None:
    sizes = [
        sum(len(path.read_text("utf-8").splitlines()) for path in (EXAMPLES / name).rglob(ending))
        for ending in ("*.py", "*.yaml")
    ]
    assert all(size <= limit for size, limit in zip(sizes, LIMITS[name], strict=True)), sizes
