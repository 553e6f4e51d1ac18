"""A task to start from: it fits a polynomial to noisy points of a sine.

Comments say what to replace. Base values and rows lie in ``conf/task/starter``. To run them, type
``allelse sweep task=starter``.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from allelse import Costs, Metric, Observes, Range, Scores, Symbol, Task, Trial


@dataclass(frozen=True)
class Model:
    # Replace: what defines your model. Each field is a key that a row can change: model.degree.
    degree: Annotated[int, Range(1, 12), Symbol("n")]  # tables call it n


@dataclass(frozen=True)
class Train:
    # Replace: what defines your training.
    steps: Annotated[int, Range(1)]
    batch: Annotated[int, Range(1)]
    lr: Annotated[float, Range(0, above=True), Symbol("η")]
    momentum: Annotated[float, Range(0, 1, below=True)]
    # It changes no result, so it is not part of a trial's key.
    save_every: Annotated[int, Range(1), Observes()]


@dataclass(frozen=True)
class Test:
    # Replace: what only changes how a trained model is scored. A row that changes only this trains
    # nothing.
    reach: Annotated[float, Range(0, above=True), Scores()]  # test points: -reach to reach


@dataclass(frozen=True)
class Config:
    model: Model
    train: Train
    test: Test


def points(number: int, seed: int, reach: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Replace: your data."""
    chance = np.random.default_rng(seed)
    x = chance.uniform(-reach, reach, number)
    return x, np.sin(3 * x) + 0.1 * chance.standard_normal(number)


def costs(config: Config) -> Costs:
    """Replace: the size of your model before training.

    Without this function, tables show "unknown".
    """
    return Costs(params=config.model.degree + 1)


def work(trial: Trial[Config]) -> None:
    """Replace: your training loop. It gives the trial what the study should keep."""
    model = trial.config.model
    train = trial.config.train
    x, y = points(200, seed=0)
    weights = np.random.default_rng(trial.seed).standard_normal(model.degree + 1)
    velocity = np.zeros_like(weights)
    first = 1
    if trial.saved:  # resume from the saved state, after its step
        weights, velocity = trial.saved.state
        first = trial.saved.step + 1
    for step in range(first, train.steps + 1):
        chance = np.random.default_rng((trial.seed, step))  # a resumed trial draws the same batches
        chosen = chance.integers(len(x), size=train.batch)
        features = np.vander(x[chosen], model.degree + 1)
        error = features @ weights - y[chosen]
        velocity = train.momentum * velocity - train.lr * features.T @ error / train.batch
        weights = weights + velocity
        stops = trial.stopping()  # then save, and return
        if stops or step % train.save_every == 0 or step == train.steps:
            trial.report(step, {"train/loss": float(np.mean(error**2))})
            trial.checkpoint(step, (weights, velocity))
        if stops:
            return
    x, y = points(1000, seed=1, reach=trial.config.test.reach)
    trial.evaluated("test", {"mse": np.mean((np.vander(x, model.degree + 1) @ weights - y) ** 2)})


task = Task(
    name="starter",  # the name in trial keys and files; keep it
    version=1,  # raise it when the same configuration trains to a different result
    schema=Config,
    metrics=(Metric("mse", label="MSE", better="down", decimals=4, set="test"),),
    steps=lambda config: config.train.steps,
    costs=costs,
    work=work,
)
