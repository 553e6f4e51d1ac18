"""CPU seconds stand beside the seconds: of training alone, of all attempts, in every output that
has costs."""

import json
import sqlite3
from contextlib import closing

import pytest
from place import Place

TASK = """
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import Metric, Range, Task, Trial

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Config:
    train: Train


def burn(seconds):
    # of this process's CPU, however long that takes
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def work(trial: Trial[Config]) -> None:
    for step in range(trial.saved.step + 1 if trial.saved else 1, trial.config.train.steps + 1):
        burn(0.25)
        trial.report(step, {"train/loss": 1.0})
        trial.checkpoint(step, step)
        if step == 2 and not (HERE / "failed").exists():
            (HERE / "failed").touch()
            raise RuntimeError("once")
    burn(6.0)
    trial.evaluated("test", {"score": 1.0})


metrics = (Metric("score", set="test"),)
task = Task("burns", 1, Config, metrics, steps=lambda config: config.train.steps, work=work)
"""


@pytest.mark.usefixtures("tracked")
def test_cpu_seconds_are_those_of_training_over_all_attempts(place: Place) -> None:
    place.write({"burns.py": TASK, "conf/task/burns/base.yaml": "train: {steps: 4}\n"})
    words = ("train", "task=burns", "sweep.name=burns")
    study = "sweep.name=burns"
    assert place.type(*words).returncode == 1
    place.must(*words)
    result = json.loads((place.folder / "runs" / "burns" / "base-s1" / "result.json").read_text())
    assert 4 * 0.25 <= result["cpu_seconds"] < 6.0, "what scores does not count"
    (row,) = json.loads(place.must("table", study, "--format", "json"))
    assert row["cpu_seconds"] == result["cpu_seconds"]
    assert "cpu_seconds" in place.must("table", study, "--format", "csv").splitlines()[0].split(",")
    assert "CPU time" in place.must("table", study, "--columns", "cpu_seconds")
    assert "CPU time" not in place.must("table", study)
    with closing(sqlite3.connect(place.folder / "runs" / "mlflow.db")) as store:
        rows = store.execute(
            "SELECT DISTINCT value FROM metrics WHERE key = 'cpu_seconds'"
        ).fetchall()
    assert rows == [(result["cpu_seconds"],)]
