"""A task to start from: it fits a polynomial to noisy points of a sine.

Replace the data, the model and the loop with your own. The rows are in
``conf/task/starter/row``. To run them, type ``allelse sweep task=starter``.
"""

from typing import Annotated, Any

import numpy as np

from allelse import Costs, Metric, Observes, Range, Scores, Symbol, Trial, task


def points(number: int, seed: int, reach: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Replace: your data."""
    chance = np.random.default_rng(seed)
    x = chance.uniform(-reach, reach, number)
    return x, np.sin(3 * x) + 0.1 * chance.standard_normal(number)


# Replace: the keyword parameters are the keys that rows change, and their defaults are base.
@task(Metric("mse", label="MSE", better="down", decimals=4, set="test"), name="starter")
def train(
    trial: Trial[Any],
    *,
    degree: Annotated[int, Range(1, 12), Symbol("n")] = 5,  # tables call it n
    lr: float = 0.1,
    momentum: float = 0.9,
    batch: int = 32,
    steps: int = 500,
    save_every: Annotated[int, Observes()] = 50,  # it changes no result
    reach: Annotated[float, Scores()] = 1.0,  # it changes how a trained model is scored
) -> float | None:
    """Replace: your training loop. It gives the trial what the study should keep."""
    np.random.seed(trial.seed)
    x, y = points(200, seed=0)
    weights = np.random.standard_normal(degree + 1)
    velocity = np.zeros_like(weights)
    trial.spent(Costs(params=weights.size))
    first = 1
    if trial.saved:  # resume after the saved step
        weights, velocity = trial.saved.state
        first = trial.saved.step + 1
    for step in range(first, steps + 1):
        chosen = np.random.randint(len(x), size=batch)
        features = np.vander(x[chosen], degree + 1)
        error = features @ weights - y[chosen]
        velocity = momentum * velocity - lr * features.T @ error / batch
        weights = weights + velocity
        stops = trial.stopping()  # then save, and return
        if stops or step % save_every == 0 or step == steps:
            trial.report(step, {"train/loss": float(np.mean(error**2))})
            # random: a resumed trial draws the same batches
            trial.checkpoint(step, (weights, velocity), random=True)
        if stops:
            return None
    x, y = points(1000, seed=1, reach=reach)
    error = np.vander(x, degree + 1) @ weights - y
    return float(np.mean(error**2))  # the score
