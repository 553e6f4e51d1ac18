"""The seconds and the memory of a trial, from what others took under the same conditions.

The same row with any seed counts first. Otherwise seconds per step are interpolated: a + b · FLOPs per step, fitted to
all that was measured. Nothing is extrapolated beyond ``REACH``.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sweeps.costs.measurement import Measurement, Source

REACH = 1.25
"""So many times below the cheapest and above the dearest measured trial a prediction may lie."""
From = Literal["finished", "calibrated", "both"]


@dataclass(frozen=True)
class Work:
    """A trial to predict: see `sweeps.worker.pace` for its digests."""

    work: str
    conditions: str
    steps: int
    flops_per_step: float | None


@dataclass(frozen=True)
class Prediction:
    """``scoring_seconds`` is None if it is unknown, and then left out of ``seconds``. ``start_seconds`` pass before a
    process can begin its first trial."""

    training_seconds: float
    scoring_seconds: float | None
    source: From
    interpolated: bool
    start_seconds: float = 0.0
    cpu_seconds: float | None = None  # of training and scoring, in the process of one worker
    first_seconds: float = 0.0  # more, and of the CPU, if the trial is the first one of its process
    first_cpu_seconds: float = 0.0

    def as_first(self) -> "Prediction":
        """Of the first trial of its process."""
        cpu = None if self.cpu_seconds is None else self.cpu_seconds + self.first_cpu_seconds
        return replace(self, training_seconds=self.training_seconds + self.first_seconds, cpu_seconds=cpu)

    def of_scoring(self) -> "Prediction":
        """Of a trial that only scores such weights."""
        return replace(self, training_seconds=0.0, cpu_seconds=None)

    @property
    def seconds(self) -> float:
        """From the start of the work to its end."""
        return self.training_seconds + (self.scoring_seconds or 0.0)


def predicted(work: Work, measured: Sequence[Measurement]) -> Prediction | None:
    """None if nothing was measured that tells."""
    comparable = [one for one in measured if one.conditions == work.conditions]
    same = _of_best_source([one for one in comparable if one.work == work.work])
    if same:
        per_step = statistics.fmean(one.seconds_per_step for one in same)
        return _prediction(work, same, per_step, interpolated=False)
    rows = _one_per_row(comparable)
    if work.flops_per_step is None or any(row.flops_per_step is None for row in rows):
        per_step_or_none = statistics.fmean(row.seconds_per_step for row in rows) if rows else None
    else:
        per_step_or_none = _interpolated(work.flops_per_step, rows)
    if per_step_or_none is None:
        return None
    return _prediction(work, rows, per_step_or_none, interpolated=True)


def _of_best_source(measured: Sequence[Measurement]) -> list[Measurement]:
    """Finished trials, or else calibrated ones."""
    finished = [one for one in measured if one.source == "finished"]
    return finished or list(measured)


def _one_per_row(measured: Sequence[Measurement]) -> list[Measurement]:
    """The measurements of each row, from the best source that it has."""
    rows: dict[str, list[Measurement]] = {}
    for one in measured:
        rows.setdefault(one.work, []).append(one)
    return [one for of_row in rows.values() for one in _of_best_source(of_row)]


def _prediction(work: Work, rows: Sequence[Measurement], per_step: float, interpolated: bool) -> Prediction:
    sources: set[Source] = {row.source for row in rows}
    setup = statistics.fmean(row.setup_seconds for row in rows)
    scoring = [row.scoring_seconds for row in rows if row.scoring_seconds is not None]
    return Prediction(
        training_seconds=setup + work.steps * per_step,
        scoring_seconds=statistics.fmean(scoring) if scoring else None,
        source=sources.pop() if len(sources) == 1 else "both",
        interpolated=interpolated,
        start_seconds=max(row.start_seconds for row in rows),
        cpu_seconds=_cpu_seconds(work, rows, per_step),
        first_seconds=max(row.first_seconds for row in rows),
        first_cpu_seconds=max(row.first_cpu_seconds for row in rows),
    )


def _cpu_seconds(work: Work, rows: Sequence[Measurement], per_step: float) -> float | None:
    """By the share of CPU seconds in the seconds of the measured steps."""
    shares = [row.cpu_seconds_per_step / row.seconds_per_step for row in rows if row.cpu_seconds_per_step]
    if not shares:
        return None
    setup_and_scoring = statistics.fmean(row.other_cpu_seconds for row in rows)
    return work.steps * per_step * statistics.fmean(shares) + setup_and_scoring


def _interpolated(flops: float, rows: Sequence[Measurement]) -> float | None:
    """Seconds per step with so many FLOPs."""
    points = [(row.flops_per_step or 0.0, row.seconds_per_step) for row in rows]
    if not points:
        return None
    lowest = min(points)[0]
    highest = max(points)[0]
    if not lowest / REACH <= flops <= highest * REACH:
        return None
    base, slope = fitted_line(points)
    return base + slope * flops


def fitted_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """a and b of y = a + b·x, none of them negative, with the least squared relative error.

    Points of one x give a line through the origin.
    """
    weights = [1 / (y * y) for _, y in points]
    total = sum(weights)
    mean_x = sum(weight * x for weight, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(weight * y for weight, (_, y) in zip(weights, points, strict=True)) / total
    spread = sum(weight * (x - mean_x) ** 2 for weight, (x, _) in zip(weights, points, strict=True))
    if spread <= 1e-12 * total * mean_x**2:
        return 0.0, mean_y / mean_x
    joint = sum(weight * (x - mean_x) * (y - mean_y) for weight, (x, y) in zip(weights, points, strict=True))
    slope = joint / spread
    base = mean_y - slope * mean_x
    if slope < 0:
        return mean_y, 0.0
    if base < 0:
        return 0.0, mean_y / mean_x
    return base, slope
