"""The example task without a network: its sweep needs no torch, and one trial runs in this
process."""

from pathlib import Path

import pytest
from studies import allelse
from typed import typed

from allelse import load
from examples import EXAMPLES, copied

WATCHED = """
import wine


def work(trial):
    wine.wine.work(trial)
    import sys
    trial.notice("with torch" if "torch" in sys.modules else "without torch")


import dataclasses
task = dataclasses.replace(wine.wine, work=work)
"""
LIMITS = {"digits": (110, 30), "wine": (50, 10)}
"""Lines of Python and of YAML."""


def test_its_trial_runs_in_the_process_of_the_command_and_loads_no_torch(workplace: Path) -> None:
    folder = copied("wine", workplace)
    (folder / "watched.py").write_text(WATCHED)
    process = allelse("train", "task=watched", "row=base", "tracking=off", cwd=folder)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "without torch" in process.stdout + process.stderr
    (score,) = load(folder / "runs" / "wine-full").scores["value"]
    assert 0.5 < score < 1
    outcome = typed(folder, "train", "sweep.name=wine-full", "row=base")
    assert "0 of 1 trials to run" in outcome.stdout


def lines_of(folder: Path, ending: str) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob(ending))


@pytest.mark.parametrize("name", LIMITS)
def test_examples_are_short(name: str) -> None:
    sizes = [lines_of(EXAMPLES / name, ending) for ending in ("*.py", "*.yaml")]
    assert all(size <= limit for size, limit in zip(sizes, LIMITS[name], strict=True)), sizes
