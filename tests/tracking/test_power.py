"""Detectable differences, and the seeds that a difference needs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tracking.statistics.power import (
    detectable,
    detectable_exponential,
    detectable_range,
    power_of,
    seeds_for,
    would_need,
)
from tracking.statistics.seed_tests import Family, family


def drawn(seeds: dict[str, int]) -> Family:
    numbers = np.random.default_rng(1)
    found = family({row: {seed: float(numbers.normal()) for seed in range(n)} for row, n in seeds.items()}, "base")
    assert found is not None
    return found


def test_one_row_needs_what_tables_of_the_t_test_say() -> None:
    """Cohen: two groups of 17 show one sd, and two of 64 half a sd, with probability 0.8."""
    assert (seeds_for(1.0, 1.0, 1), seeds_for(-0.5, 1.0, 1), seeds_for(1.0, 2.0, 1)) == (17, 64, 64)


def test_nineteen_rows_need_more() -> None:
    assert [seeds_for(effect, 1.0, 19) for effect in (0.5, 1.0, 2.0, 3.5, 40.0)] == [112, 29, 8, 3, 3]


@pytest.mark.parametrize(("difference", "sd"), [(0.0, 1.0), (0.001, 1.0), (1e-300, 1.0), (0.0, 0.0)])
def test_no_number_of_seeds_shows_what_is_hardly_there(difference: float, sd: float) -> None:
    assert seeds_for(difference, sd, 19) is None


def test_without_spread_three_seeds_show_everything() -> None:
    assert seeds_for(0.1, 0.0, 19) == 3


def test_the_number_of_seeds_is_the_smallest_one() -> None:
    for rows, effect in ((1, 1.3), (5, 2.0), (19, 0.7)):
        seeds = seeds_for(effect, 1.0, rows)
        assert seeds is not None
        assert power_of(effect, seeds, rows) >= 0.8 > power_of(effect, seeds - 1, rows)


def test_power_by_hand() -> None:
    """Two groups of 3, 4 df, critical t 2.7764, a difference of 3 sd: noncentrality 3 · √(3/2) = 3.6742."""
    by_hand = stats.nct.sf(2.776445, 4, 3.674235) + stats.nct.cdf(-2.776445, 4, 3.674235)
    assert power_of(3.0, 3, 1) == pytest.approx(by_hand, abs=1e-6)


def test_three_seeds_of_twenty_rows_show_about_three_sd() -> None:
    """By hand: critical t 3.0399 and 40 df need a noncentrality of 3.9094; times √(2/3) that is 3.1920 sd."""
    found = replace(drawn({"base": 3} | {f"r{i}": 3 for i in range(19)}), pooled_sd=2.0)
    assert detectable(found, "r0") == pytest.approx(2 * 3.1920, abs=1e-3)
    assert detectable_range(found) == (detectable(found, "r0"),) * 2
    assert power_of(3.1920, 3, 19) == pytest.approx(0.8, abs=1e-3)


def test_a_row_with_more_seeds_shows_less() -> None:
    found = drawn({"base": 5, "three": 3, "more": 9, "too": 3})
    smallest, largest = detectable_range(found) or (0, 0)
    assert (smallest, largest) == (detectable(found, "more"), detectable(found, "three"))
    assert smallest < largest
    assert detectable_range(drawn({"base": 3})) is None


def test_a_detectable_difference_is_found_with_its_probability() -> None:
    """4 rows of 4 seeds: of 4 000 simulated studies, eight in ten show it."""
    numbers = np.random.default_rng(5)
    shape = {"base": 4, "a": 4, "b": 4, "c": 4}
    found = replace(drawn(shape), pooled_sd=1.0)
    values = numbers.normal(size=(4000, 4, 4)) + np.array([0, detectable(found, "a"), 0, 0])[:, None]
    errors = np.sqrt(values.var(axis=2, ddof=1).mean(axis=1) * 2 / 4)
    t = np.abs(values[:, 1].mean(axis=1) - values[:, 0].mean(axis=1)) / errors
    assert 0.78 < float((t > (found.critical or 0)).mean()) < 0.82


def test_what_a_row_would_need() -> None:
    found = drawn({"base": 3, "a": 3, "b": 3})
    test = found.tests["a"]
    assert found.pooled_sd is not None
    for difference, needed in ((found.pooled_sd, 20), (0.0, None), (9 * found.pooled_sd, 4)):
        moved = replace(found, tests={**found.tests, "a": replace(test, difference=difference)})
        assert would_need(moved, "a") == needed


def test_a_detectable_difference_of_a_logarithm() -> None:
    found = replace(drawn({"base": 3, "a": 3}), reference_mean=1.5)
    assert detectable_exponential(found, 0.1) == pytest.approx(math.exp(1.5) * 0.105171, abs=1e-5)
