"""What a number of seeds can show: detectable differences, and the seeds that a difference needs."""

import math

from tracking.distributions import critical_t, loadings, noncentrality, power
from tracking.seed_tests import ALPHA, LEAST_SEEDS, Family

POWER = 0.8
MOST_SEEDS = 1000


def detectable(found: Family, row: str) -> float:
    """The true difference that the row's test shows with probability 0.8, if the true sd is the pooled one.

    By the noncentral t at the family's critical value. ``row`` must be tested.
    """
    assert found.pooled_sd is not None
    assert found.critical is not None
    error = found.pooled_sd * math.sqrt(1 / found.seeds[row] + 1 / found.seeds[found.reference])
    return noncentrality(found.critical, found.df, POWER) * error


def detectable_range(found: Family) -> tuple[float, float] | None:
    """The smallest and the largest over the tested rows; both are the same if all rows have as many seeds."""
    each = [detectable(found, row) for row in _one_per_number_of_seeds(found)]
    return (min(each), max(each)) if each else None


def detectable_exponential(found: Family, difference: float) -> float:
    """A detectable difference of a logarithm as one of its exponential, upward: e^reference · (e^difference − 1)."""
    assert found.reference_mean is not None
    return math.exp(found.reference_mean) * math.expm1(difference)


def would_need(found: Family, row: str) -> int | None:
    """Seeds per row to show the row's own difference with probability 0.8, if it were the true one.

    At least one more than the row has now. None if 1 000 are too few, as for a difference of 0.
    """
    assert found.pooled_sd is not None
    needed = seeds_for(found.tests[row].difference, found.pooled_sd, found.rows)
    return None if needed is None else max(needed, found.seeds[row] + 1)


def seeds_for(difference: float, sd: float, rows: int) -> int | None:
    """Seeds per row, the reference included, at which one of ``rows`` tests shows ``difference`` with probability 0.8.

    At least 3, since fewer are not tested; None if 1 000 are too few. ``sd`` is over seeds, in the same unit.
    """
    effect = abs(difference) / sd if sd > 0 else math.inf
    if difference == 0 or not _shows(effect, MOST_SEEDS, rows):
        return None
    low, high = LEAST_SEEDS - 1, LEAST_SEEDS
    while not _shows(effect, high, rows):
        low, high = high, min(max(high + 1, math.ceil(1.4 * high)), MOST_SEEDS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _shows(effect, middle, rows) else (middle, high)
    return high


def power_of(effect: float, seeds: int, rows: int) -> float:
    """The probability that one of ``rows`` tests shows a difference of ``effect`` sd, with ``seeds`` in every row."""
    df = (rows + 1) * (seeds - 1)
    critical = critical_t(loadings(seeds, [seeds] * rows), df, ALPHA)
    return power(effect * math.sqrt(seeds / 2), critical, df)


def _shows(effect: float, seeds: int, rows: int) -> bool:
    return math.isinf(effect) or power_of(effect, seeds, rows) >= POWER


def _one_per_number_of_seeds(found: Family) -> list[str]:
    return list({found.seeds[row]: row for row in found.tests}.values())
