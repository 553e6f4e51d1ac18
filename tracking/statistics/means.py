"""Means, deviations and differences of scores. An unknown number is None, and so is a result that
needs it."""

import math
import statistics
from collections.abc import Sequence
from decimal import Decimal

from tracking.card import Metric

ROUNDING = 2.0**-48
"""Relative error of a mean as a float holds it, at most: no smaller difference is measured."""


def metric_mean(metric: Metric, values: Sequence[float | None]) -> float | None:
    """The arithmetic mean; for a metric that is e^ of another one, e^ of the mean of that one."""
    if metric.exp_of is None or len(values) < 2:
        return mean(values)
    logs = [math.log(value) for value in values if value is not None and value > 0]
    if len(logs) < len(values):
        return mean(values)
    return math.exp(math.fsum(logs) / len(logs))


def mean(values: Sequence[float | None]) -> float | None:
    """None without values, or if one was not finite: leaving out a diverged seed would flatter the
    row."""
    numbers = _all_numbers(values)
    return math.fsum(numbers) / len(numbers) if numbers else None


def deviation(values: Sequence[float | None]) -> float | None:
    """The sample standard deviation; None for fewer than two values, or if one was not finite."""
    numbers = _all_numbers(values)
    return statistics.stdev(numbers) if len(numbers) > 1 else None


def _all_numbers(values: Sequence[float | None]) -> list[float]:
    """Empty if any is None."""
    numbers = [value for value in values if value is not None]
    return numbers if len(numbers) == len(values) else []


def minus(value: float | None, base: float | None) -> float | None:
    """Unrounded; 0 where only rounding errors of the two, which may be means, set them apart."""
    if value is None or base is None:
        return None
    difference = value - base
    largest = max(abs(value), abs(base))
    return 0.0 if abs(difference) <= ROUNDING * largest else difference


def published_minus(value: float | None, base: float | None) -> float | None:
    """As on paper: 5.29 − 4.92 is 0.37, where binary fractions give 0.3700000000000001."""
    if value is None or base is None:
        return None
    return float(Decimal(str(value)) - Decimal(str(base)))
