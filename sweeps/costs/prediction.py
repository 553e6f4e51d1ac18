"""The seconds of a trial, predicted from measurements under the same conditions.

Measurements of the same row count first, with any seed. Otherwise seconds per step are interpolated
as a + b · FLOPs per step, fitted to all measured rows. Predictions end at ``REACH`` beyond the
measured range.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from sweeps.costs.measurement import Measurement, Source

REACH = 1.25
"""Trials up to this many times cheaper or more expensive than all measured ones get a prediction."""
From = Literal["finished", "calibrated", "both"]


@dataclass(frozen=True)
class Work:
    """A trial to predict. `sweeps.worker.pace` defines the digests ``work`` and ``conditions``.

    ``steps`` is None for a command that doesn't state them.
    """

    work: str
    conditions: str
    steps: int | None
    flops_per_step: float | None


@dataclass(frozen=True)
class Prediction:
    """The predicted seconds of a trial.

    ``scoring_seconds`` is None if unknown; ``seconds`` then leaves it out. A process needs
    ``start_seconds`` before its first trial begins. That trial takes ``first_seconds`` more.
    """

    training_seconds: float
    scoring_seconds: float | None
    source: From
    interpolated: bool
    start_seconds: float = 0.0
    first_seconds: float = 0.0

    def as_first(self) -> "Prediction":
        """The prediction if the trial is the first of its process."""
        return replace(self, training_seconds=self.training_seconds + self.first_seconds)

    def with_share(self, left: float) -> "Prediction":
        """The prediction for a trial that still has this share of its steps to train."""
        return replace(self, training_seconds=self.training_seconds * left)

    def of_scoring(self) -> "Prediction":
        """The prediction for a trial that only scores these weights."""
        return replace(self, training_seconds=0.0)

    @property
    def seconds(self) -> float:
        """From the start of the work to its end."""
        return self.training_seconds + (self.scoring_seconds or 0.0)


def predict(work: Work, measurements: Sequence[Measurement]) -> Prediction | None:
    """The prediction for a trial; None if no measurement is close enough."""
    comparable = [run for run in measurements if run.conditions == work.conditions]
    with_steps = [run for run in comparable if run.steps > 0]
    if work.steps is not None and with_steps:
        comparable = with_steps
    else:
        work = replace(work, steps=1, flops_per_step=None)
        whole = [run for run in comparable if run.steps == 0 or run.source == "finished"]
        comparable = [_as_one_step(run) for run in whole]
    same_row = _best_source([run for run in comparable if run.work == work.work])
    if same_row:
        per_step = fmean(run.seconds_per_step for run in same_row)
        return _prediction(work, same_row, per_step, interpolated=False)
    runs = _best_source_by_row(comparable)
    interpolated = _seconds_per_step(work.flops_per_step, runs)
    if interpolated is None:
        return None
    return _prediction(work, runs, interpolated, interpolated=True)


def _as_one_step(run: Measurement) -> Measurement:
    """A trial that was measured as a whole: without a number of steps, only that predicts."""
    return replace(
        run,
        steps=1,
        seconds_per_step=max(1, run.steps) * run.seconds_per_step,
        flops_per_step=None,
    )


def _best_source(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Only the finished trials if there are any, or else all."""
    finished = [run for run in measurements if run.source == "finished"]
    return finished or list(measurements)


def _best_source_by_row(measurements: Sequence[Measurement]) -> list[Measurement]:
    """The measurements of all rows, those of each row from its best source."""
    rows: dict[str, list[Measurement]] = {}
    for run in measurements:
        rows.setdefault(run.work, []).append(run)
    return [run for runs in rows.values() for run in _best_source(runs)]


def _prediction(
    work: Work,
    runs: Sequence[Measurement],
    per_step: float,
    interpolated: bool,
) -> Prediction:
    """A prediction with these seconds per step, and the rest from the measured runs."""
    steps = work.steps or 1
    sources: set[Source] = {run.source for run in runs}
    setup = fmean(run.setup_seconds for run in runs)
    scoring = [run.scoring_seconds for run in runs if run.scoring_seconds is not None]
    return Prediction(
        training_seconds=setup + steps * per_step,
        scoring_seconds=fmean(scoring) if scoring else None,
        source=sources.pop() if len(sources) == 1 else "both",
        interpolated=interpolated,
        start_seconds=max(run.start_seconds for run in runs),
        first_seconds=max(run.first_seconds for run in runs),
    )


def _seconds_per_step(flops: float | None, runs: Sequence[Measurement]) -> float | None:
    """Interpolated at ``flops`` per step; the mean of the runs if any FLOPs are unknown or 0, or
    if no time was measured.

    None without runs, or if ``flops`` are beyond ``REACH``.
    """
    if not runs:
        return None
    are_known = all(run.flops_per_step and run.seconds_per_step for run in runs)
    if not (flops and are_known):
        return fmean(run.seconds_per_step for run in runs)
    points = [(run.flops_per_step or 0.0, run.seconds_per_step) for run in runs]
    lowest_flops, _ = min(points)
    highest_flops, _ = max(points)
    if not lowest_flops / REACH <= flops <= highest_flops * REACH:
        return None
    base, slope = fitted_line(points)
    return base + slope * flops


def fitted_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Fit y = a + b·x to the points (x, y). Returns a and b, neither of them negative.

    Minimizes the squared relative error. If all points share one x, the line goes through the
    origin.
    """
    weighted = [(1 / (y * y), x, y) for x, y in points]
    total = sum(weight for weight, _, _ in weighted)
    mean_x = sum(weight * x for weight, x, _ in weighted) / total
    mean_y = sum(weight * y for weight, _, y in weighted) / total
    spread = sum(weight * (x - mean_x) ** 2 for weight, x, _ in weighted)
    if spread <= 1e-12 * total * mean_x**2:
        return 0.0, mean_y / mean_x
    joint = sum(weight * (x - mean_x) * (y - mean_y) for weight, x, y in weighted)
    slope = joint / spread
    base = mean_y - slope * mean_x
    if slope < 0:
        return mean_y, 0.0
    if base < 0:
        return 0.0, mean_y / mean_x
    return base, slope
