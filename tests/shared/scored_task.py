"""A task whose scores follow from its weights and from keys that only score, in one file."""

from pathlib import Path

SOURCE = """
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import DivergedError, Keep, Metric, Range, Scores, Task, Trial

HERE = Path()


@dataclass(frozen=True)
class Model:
    size: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]


@dataclass(frozen=True)
class Score:
    beam: Annotated[int, Range(1), Scores()]
    average: Annotated[int, Range(1), Scores()]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train
    score: Score


def home(trial):  # where a person edits, and not the study's copy
    homes = (folder for folder in trial.folder.parents if (folder / "conf").is_dir())
    return next(homes, Path())


def averaged(config):
    last = config.train.steps
    return list(range(last - config.score.average + 1, last + 1))


def log(name, text):
    with (HERE / name).open("a") as file:
        file.write(f"{text}\\n")


def train(trial, steps):
    total = trial.saved.state if trial.saved else 0.1 * trial.seed
    for step in range(trial.saved.step + 1 if trial.saved else 1, steps + 1):
        total += trial.config.model.size / (step + trial.seed)
        log("trained", f"{trial.seed} {step}")
        trial.report(step, {"train/loss": 1 / total})
        if step in trial.kept_steps or step == steps:
            trial.checkpoint(step, total)


def work(trial: Trial[Config]) -> None:
    global HERE
    HERE = home(trial)
    config = trial.config
    if (HERE / "fails").exists():
        raise RuntimeError("no luck")
    if (HERE / "diverges").exists():
        trial.report(1, {"train/loss": 1.0})
        raise DivergedError("lost", 1)
    train(trial, config.train.steps)
    while (HERE / "holds").exists() and config.score.beam == 8:
        log("held", trial.seed)
        time.sleep(0.1)
    states = [saved.state for saved in trial.states(averaged(config))]
    weights = sum(states) / len(states)
    for place, name in enumerate(("dev", "test")):
        if name not in trial.scored:
            trial.evaluated(name, {"score": weights / (config.score.beam + place)})


task = Task(
    "scored",
    1,
    Config,
    (Metric("score", "score", "", "up", 6, "dev"),),
    steps=lambda config: config.train.steps,
    work=work,
    keep=lambda config: Keep(newest=1, steps=averaged(config)),
)
"""
HEAD = "# @package _global_\n"
FILES = {
    "scored.py": SOURCE,
    "conf/task/scored/base.yaml": (
        "model: {size: 1}\ntrain: {steps: 5}\nscore: {beam: 4, average: 1}\n"
    ),
    "conf/task/scored/row/big.yaml": f"{HEAD}row: {{group: A}}\nmodel: {{size: 3}}\n",
    "conf/task/scored/row/big_greedy.yaml": (
        f"{HEAD}defaults: [big, _self_]\nrow: {{group: A}}\nscore: {{beam: 1}}\n"
    ),
    "conf/task/scored/row/both.yaml": (
        f"{HEAD}row: {{group: B}}\nmodel: {{size: 2}}\nscore: {{beam: 2}}\n"
    ),
    "conf/task/scored/row/greedy.yaml": f"{HEAD}row: {{group: C}}\nscore: {{beam: 1}}\n",
    "conf/task/scored/row/mean.yaml": f"{HEAD}row: {{group: C}}\nscore: {{average: 3}}\n",
}


def write_scored(folder: Path) -> Path:
    """The task and its configuration in this folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder
