"""What a number of seeds can show: detectable differences, and the seeds that a difference needs."""

import math

from tracking.statistics.distributions import critical_t, loadings, noncentrality, power
from tracking.statistics.seed_tests import ALPHA, LEAST_SEEDS, Family

POWER = 0.8
MOST_SEEDS = 1000
TINY = 1e-6  # in sd: far below what so many seeds show


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
    if difference == 0:
        return None
    effect = max(abs(difference) / sd, TINY) if sd > 0 else math.inf
    if (estimate := _seeds_at(effect, MOST_SEEDS, rows)) > MOST_SEEDS:
        return None
    seeds = _seeds_at(effect, max(estimate, LEAST_SEEDS), rows)  # near: df and critical t change little with seeds
    while seeds < LEAST_SEEDS or _seeds_at(effect, seeds, rows) > seeds:
        seeds += 1
    while seeds > LEAST_SEEDS and _seeds_at(effect, seeds - 1, rows) <= seeds - 1:
        seeds -= 1
    return seeds


def power_of(effect: float, seeds: int, rows: int) -> float:
    """The probability that one of ``rows`` tests shows a difference of ``effect`` sd, with ``seeds`` in every row."""
    df = (rows + 1) * (seeds - 1)
    return power(effect * math.sqrt(seeds / 2), _critical(seeds, rows), df)


def _seeds_at(effect: float, seeds: int, rows: int) -> int:
    """Seeds that show the effect at the critical t and df of ``seeds``; more than ``seeds`` if these are too few."""
    needed = noncentrality(_critical(seeds, rows), (rows + 1) * (seeds - 1), POWER)
    return math.ceil(2 * (needed / effect) ** 2)


def _critical(seeds: int, rows: int) -> float:
    return critical_t(loadings(seeds, [seeds] * rows), (rows + 1) * (seeds - 1), ALPHA)


def _one_per_number_of_seeds(found: Family) -> list[str]:
    return list({found.seeds[row]: row for row in found.tests}.values())
