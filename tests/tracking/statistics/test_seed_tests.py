"""The test behind the mark against an independent computation and its limits.

What the table says of power is what happens in simulated studies.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

from tracking.statistics.seeds.finding import ALPHA
from tracking.statistics.seeds.seed_tests import (
    CANDIDATES,
    POWER,
    Comparisons,
    Power,
    differences,
    exponential_intervals,
    intervals,
    moderated,
)

Floats = Any
STUDIES = 4000
POINTS = 0.045  # of the simulation, and of the 400 draws behind Power


def by_hand(rows: list[Floats]) -> tuple[list[float], list[float], list[float]]:
    """Smyth's (2004) formulas one number at a time, by scipy's root search and distributions:
    variances, df, p.

    The posterior is integrated over the prior of 1 / σ², rather than written down.
    """
    df = [len(row) - 1 for row in rows]
    variances = [float(np.var(row, ddof=1)) for row in rows]
    logs = [
        math.log(v) - special.psi(d / 2) + math.log(d / 2)
        for v, d in zip(variances, df, strict=True)
    ]
    excess = float(np.var(logs, ddof=1)) - float(np.mean([special.polygamma(1, d / 2) for d in df]))
    assert excess > 0, "the test's rows must differ in variance"
    d0 = 2 * float(optimize.brentq(lambda half: special.polygamma(1, half) - excess, 1e-6, 1e6))
    s0 = math.exp(float(np.mean(logs)) + float(special.psi(d0 / 2)) - math.log(d0 / 2))

    def posterior(v: float, d: int) -> float:
        """1 / E[1 / σ² | v], with 1 / σ² ~ χ²(d0) / (d0 s0) a priori and d v / σ² ~ χ²(d)."""

        def weight(precision: float) -> float:
            return float(
                stats.chi2.pdf(precision * d0 * s0, d0)
                * stats.chi2.pdf(d * v * precision, d)
                * precision
            )

        top = 60 / s0
        total = integrate.quad(weight, 0, top, limit=500)[0]
        return float(total) / float(integrate.quad(lambda x: x * weight(x), 0, top, limit=500)[0])

    posteriors = [max(v, posterior(v, d)) for v, d in zip(variances, df, strict=True)]
    gained = [min(d0 + d, sum(df)) for d in df]
    if df[0] > float(np.median(df[1:])):
        posteriors[0] = variances[0]
        gained[0] = df[0]
    p = []
    for row, v, d in zip(rows[1:], posteriors[1:], gained[1:], strict=True):
        a = v / len(row)
        b = posteriors[0] / len(rows[0])
        t = (np.mean(row) - np.mean(rows[0])) / math.sqrt(a + b)
        p.append(
            float(
                2 * stats.t.sf(abs(t), min((a + b) ** 2 / (a**2 / d + b**2 / gained[0]), sum(df)))
            )
        )
    return posteriors, gained, p


def holm_by_hand(p: list[float]) -> list[float]:
    """The i-th smallest of k times k − i, and never less than the one before."""
    ordered = sorted(p)
    adjusted = []
    for p_value in p:
        products = [
            (len(p) - i) * smaller for i, smaller in enumerate(ordered) if smaller <= p_value
        ]
        adjusted.append(min(1.0, max(products)))
    return adjusted


def moments(rows: list[Floats]) -> tuple[Floats, Floats, Floats]:
    return (
        np.array([row.mean() for row in rows]),
        np.array([row.var(ddof=1) for row in rows]),
        np.array([len(row) for row in rows]),
    )


@pytest.mark.parametrize("sizes", [[9, 3, 3, 3, 3], [4, 3, 5, 3, 6]], ids=str)
def test_an_independent_computation_agrees(sizes: list[int]) -> None:
    chance = np.random.default_rng(5)
    rows = [
        chance.normal(index / 3, math.exp(chance.normal()), size)
        for index, size in enumerate(sizes)
    ]
    means, variances, seeds = moments(rows)
    posteriors, gained, p = by_hand(rows)
    estimate = moderated(variances, seeds)
    tested = differences(means, variances, seeds)
    assert estimate.variance == pytest.approx(posteriors, rel=1e-5)
    assert estimate.df == pytest.approx(gained)
    assert tested.p == pytest.approx(p, rel=1e-4)
    assert tested.p_holm == pytest.approx(holm_by_hand(p), rel=1e-4)


def test_rows_that_share_one_variance_are_students_t() -> None:
    """Equal sample variances vary less than chance would make them: the prior is all, as in a
    pooled t-test."""
    base = np.array([1.0, 2.0, 3.0])
    row = np.array([4.0, 5.0, 6.0])
    other_row = np.array([0.0, 1.0, 2.0])
    tested = differences(*moments([base, row, other_row]))
    pooled = stats.t.sf(3 / math.sqrt(2 / 3), 6) * 2
    assert tested.p[0] == pytest.approx(pooled)


@pytest.mark.parametrize("sd", [0.003, 0.3])
def test_intervals_hold_zero_exactly_where_bonferroni_shows_nothing(sd: float) -> None:
    """So do those of exponentials, whose ends are extremes over the ellipse of both errors."""
    chance = np.random.default_rng(4)
    means = 1.5 + sd * chance.normal(size=(200, 6))
    variances = sd**2 * chance.chisquare(2, (200, 6)) / 2
    seeds = 3
    tested = differences(means, variances, np.full(6, seeds))
    significant = tested.p * 5 < 0.05
    assert 0 < significant.mean() < 1
    for low, high in (intervals(tested), exponential_intervals(tested, means)):
        assert (((low > 0) | (high < 0)) == significant).all()


def test_the_ends_of_an_exponential_are_the_extremes_of_the_ellipse() -> None:
    means = np.array([1.5, 1.6])
    variances = np.array([0.02, 0.03])
    tested = differences(means, variances, np.array([3, 3]))
    reach = float((intervals(tested)[1] - tested.difference)[0] / tested.error[0])
    angles = np.linspace(0, 2 * np.pi, 200_001)
    row = np.exp(1.6 + reach * tested.errors[1] * np.cos(angles))
    ellipse = row - np.exp(1.5 + reach * tested.errors[0] * np.sin(angles))
    low, high = exponential_intervals(tested, means)
    assert (float(low[0]), float(high[0])) == pytest.approx(
        (ellipse.min(), ellipse.max()), rel=1e-6
    )


def test_rows_without_spread_do_not_break_the_others() -> None:
    """As where every seed scores 100 %."""
    tested = differences(
        np.array([0.0, 1.0, 5.0]), np.array([0.01, 0.0, 0.02]), np.array([3, 3, 3])
    )
    assert np.isfinite(tested.p).all()
    assert (tested.p > 0).all()


def marked(sds: list[float], seeds: list[int], difference: float) -> float:
    """The share of simulated studies in which the first compared row is marked."""
    chance = np.random.default_rng(1)
    number = np.array(seeds)
    sd = np.array(sds)
    means = chance.normal(size=(STUDIES, len(seeds))) * sd / np.sqrt(number)
    means[:, 1] += difference
    variances = sd**2 * chance.chisquare(number - 1, (STUDIES, len(seeds))) / (number - 1)
    return float((differences(means, variances, number).p_holm[:, 0] <= ALPHA).mean())


@pytest.mark.parametrize(
    ("sds", "seeds", "difference"),
    [
        ([1.0] * 20, [3] * 20, 3.5),
        ([1.0] * 20, [9] + [3] * 19, 3.5),
        ([1.0] * 3, [3] * 3, 3.5),
        ([1.0, 3.0] + [1.0] * 8, [5] * 10, 6.0),
    ],
    ids=str,
)
def test_power_and_the_detectable_difference(
    sds: list[float], seeds: list[int], difference: float
) -> None:
    power = Power([sd**2 for sd in sds])
    assert power.of(seeds, difference)[0] == pytest.approx(
        marked(sds, seeds, difference), abs=POINTS
    )
    assert marked(sds, seeds, float(power.detectable(seeds)[0])) == pytest.approx(POWER, abs=POINTS)


@pytest.mark.parametrize(("difference", "now"), [(1.5, [3] * 20), (2.0, [9] + [3] * 19)])
def test_the_seeds_that_are_told_are_enough_and_the_next_fewer_are_not(
    difference: float, now: list[int]
) -> None:
    def share(seeds: int) -> float:
        return marked([1.0] * 20, [max(now[0], seeds), seeds, *now[2:]], difference)

    seeds = Power([1.0] * 20).seeds_needed(now, difference, 0)
    assert seeds is not None
    assert share(seeds) >= POWER - POINTS
    for fewer in CANDIDATES[: CANDIDATES.index(seeds)][-1:]:
        assert share(fewer) < POWER + POINTS


def test_no_number_of_seeds_marks_nothing() -> None:
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 0.0, 0) is None
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 1e-4, 0) is None
    assert Power([1.0, 1.0]).seeds_needed([3, 3], 1e9, 0) == CANDIDATES[0]


@pytest.mark.parametrize("seeds_of_references", [3, 9])
def test_rows_with_three_references_are_marked_by_chance_in_five_percent_of_studies(
    seeds_of_references: int,
) -> None:
    """Without any true difference; and all intervals hold in the other studies."""
    reference_of_row = {1: 0, 2: 0, 3: 0, 4: 3, 5: 3, 6: 0, 7: 6, 8: 6}
    comparisons = Comparisons(np.array([*reference_of_row]), np.array([*reference_of_row.values()]))
    seeds = np.full(9, 3)
    seeds[[0, 3, 6]] = seeds_of_references
    random = np.random.default_rng(1)
    means = np.empty((STUDIES, 9))
    variances = np.empty((STUDIES, 9))
    for row in range(9):
        values = random.normal(size=(STUDIES, seeds[row]))
        means[:, row] = values.mean(axis=1)
        variances[:, row] = values.var(axis=1, ddof=1)
    tested = differences(means, variances, seeds, comparisons)
    low, high = intervals(tested)
    any_marked = (tested.p_holm <= 0.05).any(axis=1)
    all_hold = ((low <= 0) & (high >= 0)).all(axis=1)
    assert 0.025 < any_marked.mean() < 0.055
    assert all_hold.mean() == pytest.approx(1 - any_marked.mean(), abs=0.002)
