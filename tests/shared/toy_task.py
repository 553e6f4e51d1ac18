"""A task outside the tree that uses all of the interface: a line through prepared points, by one
worker or more."""

from pathlib import Path

SOURCE = '''
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from sweeps.task import (
    Costs, Divided, Fingerprinted, Keep, Metric, Observes, Problem, Range, Scores, Symbol, Task, Trained, Trial,
)


@dataclass(frozen=True)
class Model:
    width: Annotated[int, Range(1), Symbol("w"), Divided("width")]


@dataclass(frozen=True)
class Train:
    steps: Annotated[int, Range(1)]
    rate: Annotated[float, Range(0, above=True)]
    every: Annotated[int, Range(1), Observes()]
    twin: bool


@dataclass(frozen=True)
class Score:
    average: Annotated[int, Range(1), Scores()]
    spacing: Annotated[int, Range(1), Scores()]


@dataclass(frozen=True)
class Data:
    size: Annotated[int, Range(8), Fingerprinted()]


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train
    score: Score
    data: Data


def averaged(config):
    if config.score.average == 1:
        return [config.train.steps]
    last = config.train.steps // config.score.spacing
    return [number * config.score.spacing for number in range(last - config.score.average + 1, last + 1)]


def prepare(configs, folder, told):
    told("drawing points", 0.5)
    chance = np.random.default_rng(0)
    for name in ("train", "test"):
        x = chance.standard_normal((configs[0].data.size, 8))
        np.save(folder / f"{name}.npy", np.column_stack([x, x.sum(axis=1)]))


def data_problems(config, folder):
    if folder is not None and len(np.load(folder / "train.npy")) != config.data.size:
        yield Problem("data.size", "is not what was prepared", "must be")


def texts(folder, set_name):
    return {"point": [str(row) for row in np.load(folder / f"{set_name}.npy")]}


def features(trial, name):
    points = np.load(trial.data / f"{name}.npy")
    return points[:, : trial.config.model.width], points[:, -1]


def mean_over_workers(trial, gradient):
    if trial.world > 1:
        import torch

        shared = torch.from_numpy(gradient)
        torch.distributed.all_reduce(shared)
        gradient = shared.numpy() / trial.world
    return gradient


def wait_for_leave(trial, step):
    """The study's test decides how far training goes, other than that of a twin, which computes the same."""
    leave = Path(__file__).with_name("leave")
    if trial.config.train.twin:
        return
    while leave.exists() and step > int(leave.read_text()) and not trial.stopping(alone=True):
        time.sleep(0.02)


def work(trial: Trial[Config]) -> None:
    train = trial.config.train
    x, y = features(trial, "train")
    weights = np.random.default_rng(trial.seed).standard_normal(x.shape[1])
    parts = trial.saved.state["parts"] if trial.saved else {"weights": weights, "speed": np.zeros_like(weights)}
    if trial.rank == 0:
        with (trial.folder / "runs").open("a") as runs:
            runs.write("one")
    named = averaged(trial.config)
    with trial.process_group():
        for step in range(trial.saved.step + 1 if trial.saved else 1, train.steps + 1):
            wait_for_leave(trial, step)
            chosen = np.random.default_rng((trial.seed, step)).integers(len(x), size=16)[trial.rank :: trial.world]
            noise = np.random.default_rng((trial.seed, step, 1))
            for name in parts:  # in the order of the dict
                parts[name] = parts[name] + 1e-3 * noise.standard_normal(x.shape[1])
            error = x[chosen] @ parts["weights"] - y[chosen]
            gradient = mean_over_workers(trial, x[chosen].T @ error / len(chosen))
            parts["speed"] = 0.5 * parts["speed"] - train.rate * gradient
            weights = parts["weights"] = parts["weights"] + parts["speed"]
            stops = trial.stopping()
            if stops or step % train.every == 0 or step == train.steps or step in trial.kept_steps:
                loss = float(np.mean((x @ weights - y) ** 2))
                trial.report(step, {"train/loss": loss})
                trial.checkpoint(step, {"parts": parts, "weights": weights, "loss": loss}, score=loss)
            if stops:
                return
        trial.spent(Costs(params=len(weights), flops=2.0 * train.steps))
        trial.about({"points": len(x), "torch": "torch" in sys.modules})
        weights = np.mean([saved.state["weights"] for saved in trial.states(named)], axis=0)
    if "test" not in trial.scored:
        x, y = features(trial, "test")
        errors = (x @ weights - y) ** 2
        lines = "".join(f"{error}\\n" for error in errors)
        samples = [{"error": error} for error in errors]
        trial.evaluated("test", {"mse": errors.mean()}, {"errors/test.txt": lines}, samples)
    trial.notice(f"scored over the steps {named}")


def mean_error(trained: Trained[Config]):
    """Print the error of a trained line."""
    (saved,) = trained.states()
    print(f"{trained.name} {saved.step} {saved.state['loss']:.6f} {trained.config.score.average}")


task = Task(
    "toy",
    1,
    Config,
    (Metric("mse", better="down", decimals=6, set="test", from_counts=("mean", "error")),),
    steps=lambda config: config.train.steps,
    work=work,
    keep=lambda config: Keep(newest=1, best=True, steps=averaged(config)),
    costs=lambda config: Costs(params=config.model.width, checkpoint_bytes=1000.0),
    fingerprint=lambda config: f"points-{config.data.size}",
    prepare=prepare,
    data_problems=data_problems,
    texts=texts,
    verbs=(mean_error,),
    words=lambda changed: ", ".join(f"{name} is {value}" for name, value in changed.items()),
)
'''
BASE = """\
model: {width: 8}
train: {steps: 60, rate: 0.05, every: 7, twin: false}
score: {average: 1, spacing: 10}
data: {size: 64}
"""
FILES = {
    "toy.py": SOURCE,
    "conf/task/toy/base.yaml": BASE,
    "conf/task/toy/row/narrow.yaml": "# @package _global_\nrow: {group: A}\nmodel: {width: 4}\n",
    "conf/task/toy/row/twin.yaml": "# @package _global_\nrow: {group: A}\ntrain: {twin: true}\n",
    "conf/task/toy/scale/half.yaml": "# @package _global_\nscale: {name: half, width: 2}\n",
}


def write_toy(folder: Path) -> Path:
    """The task and its configuration in this folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder
