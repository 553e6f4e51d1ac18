"""A task in one file that needs no library: its result follows from its keys, so tests of the
platform are quick."""

from pathlib import Path

SOURCE = """
from dataclasses import dataclass
from typing import Annotated, Literal

from sweeps.task import (
    Costs, Divided, Keep, Metric, Neutral, Observes, OtherNames, Problem, Range, RefusedError, Scores, Symbol, Task,
    Trial)


@dataclass(frozen=True)
class Model:
    size: Annotated[int, Range(1), Symbol("s"), Divided("size")]
    kind: Literal["round", "square"]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1), OtherNames("epoch epochs")]
    rate: Annotated[float, Range(0, above=True)]
    every: Annotated[int, Range(1), Observes()]
    cut: Annotated[float, Scores()]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train


def work(trial: Trial[Config]) -> None:
    total = trial.saved.state if trial.saved else 0.0
    for step in range(trial.saved.step + 1 if trial.saved else 1, trial.config.train.steps + 1):
        total += trial.config.train.rate * trial.seed
        if regular := step % trial.config.train.every == 0:
            trial.report(step, {"train/loss": 1 / total})
        if (stops := trial.stopping()) or regular:
            trial.checkpoint(step, total)
        if stops:
            return
    trial.evaluated("dev", {"score": total})


task = Task("small", 1, Config, (Metric("score"),), steps=lambda config: config.train.steps, work=work)
"""
BASE = """\
model: {size: 8, kind: round}
train:
  steps: 4
  rate: 0.5
  every: 2
  cut: 0.5
"""
HEAD = "# @package _global_\n"
ROW = HEAD + "row: {group: A, change: square}\nmodel: {kind: square}\n"
FILES = {
    "small.py": SOURCE,
    "conf/task/small/base.yaml": BASE,
    "conf/task/small/row/square.yaml": ROW,
}


def write_task(
    folder: Path, replaced: dict[str, str] | None = None, files: dict[str, str] | None = None
) -> Path:
    """The task in this folder, with parts of its source replaced and with other or further
    files."""
    source = SOURCE
    for old, new in (replaced or {}).items():
        assert old in source, old
        source = source.replace(old, new)
    for name, text in (FILES | {"small.py": source} | (files or {})).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder
