"""How a trial ends: with its last step, stopped as asked, or at a step that nobody knows, and all
outputs say so."""

import json
import re
import sqlite3
from contextlib import closing

import pytest
from place import Place

TASK = """
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import Metric, Range, Task, Trial


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Config:
    train: Train


def press(trial, step):
    # a person presses Ctrl-C at this step, once
    file = next(folder for folder in trial.folder.parents if (folder / "conf").is_dir()) / "press"
    if step == 56 and file.exists():
        file.unlink()
        os.kill(os.getpid(), signal.SIGINT)


def work(trial: Trial[Config]) -> None:
    w, steps = 0.0, trial.config.train.steps
    for step in range(1, steps + 1):
        w += 1.0
        press(trial, step)
EACH_STEP
    trial.evaluated("test", {"score": w})


metrics = (Metric("score", set="test"),)
task = Task("ends", 1, Config, metrics, steps=lambda config: config.train.steps, work=work)
"""
WORDS = ("train", "task=ends", "sweep.name=ends")
LEAVES = "        if trial.stopping():\n            break"
REPORTS_LATE = (
    f"        if step == steps:\n            trial.report(step, {{'train/loss': w}})\n{LEAVES}"
)
UNKNOWN = "ended at an unknown step"


def write(project: Place, each_step: str) -> None:
    project.write(
        {
            "ends.py": TASK.replace("EACH_STEP", each_step),
            "conf/task/ends/base.yaml": "train: {steps: 200}\n",
        }
    )


@pytest.mark.parametrize(("each_step", "note"), [(REPORTS_LATE, ""), (LEAVES, UNKNOWN)])
def test_a_trial_that_was_stopped_before_its_first_report_is_trained_again(
    place: Place, each_step: str, note: str
) -> None:
    """Its loop leaves by `break`, and then scores what it has."""
    write(place, each_step)
    (place.folder / "press").touch()
    stopped = place.type(*WORDS)
    trial = place.folder / "runs" / "ends" / "base-s1"
    assert stopped.returncode == 130, stopped.stdout + stopped.stderr
    assert not (trial / "result.json").exists()
    place.must(*WORDS)
    result = json.loads((trial / "result.json").read_text())
    assert result["scores"]["test"]["score"] == 200.0
    (line,) = json.loads(place.must("status", "sweep.name=ends", "--json"))
    assert (line["state"], line["note"]) == ("finished", note)


@pytest.mark.usefixtures("tracked")
def test_a_trial_without_a_report_of_its_last_step_ended_at_an_unknown_step_in_every_output(
    place: Place,
) -> None:
    write(place, "        if step == 56:\n            break")
    assert UNKNOWN in place.must(*WORDS)
    study = "sweep.name=ends"
    (line,) = json.loads(place.must("status", study, "--json"))
    (row,) = json.loads(place.must("table", study, "--format", "json"))
    assert (line["state"], line["note"]) == ("finished", UNKNOWN)
    assert (row["steps"], row["note"]) == (None, f"{UNKNOWN} (s1)")
    csv = place.must("table", study, "--format", "csv")
    table = " ".join(place.must("table", study).split())
    assert UNKNOWN in csv
    assert UNKNOWN in table
    place.must("report", study)
    pages = [path.read_text() for path in place.folder.rglob("*.html")]
    assert any(re.search(UNKNOWN, page) for page in pages)
    with closing(sqlite3.connect(place.folder / "runs" / "mlflow.db")) as store:
        tags = store.execute("SELECT value FROM tags WHERE key LIKE '%stopped_at'").fetchall()
    assert tags == [(UNKNOWN,)]
