"""The distributions of the tests: against printed tables, scipy and each other."""

import math

import numpy as np
import pytest
from scipy import stats

from tracking.statistics.distributions import critical_t, largest_t_tail, loadings, noncentrality, power, t_tail


@pytest.mark.parametrize(
    ("rows", "df", "printed"),
    [(1, 10, 2.23), (2, 6, 2.86), (2, 10, 2.57), (3, 5, 3.29), (9, 20, 2.95), (9, 60, 2.77)],
)
def test_critical_values_are_those_of_dunnetts_printed_table(rows: int, df: int, printed: float) -> None:
    assert round(critical_t(loadings(3, [3] * rows), df, 0.05), 2) == printed


@pytest.mark.parametrize("sizes", [[3, 3, 3], [3, 4, 5, 7], [10, 3, 3], [3, 20]], ids=str)
def test_tails_are_those_of_scipys_dunnett(sizes: list[int]) -> None:
    drawn = np.random.default_rng(len(sizes))
    base, *rows = (drawn.normal(size=size) for size in sizes)
    found = stats.dunnett(*rows, control=base, rng=np.random.default_rng(1))
    df, shape = sum(sizes) - len(sizes), loadings(sizes[0], sizes[1:])
    ours = [largest_t_tail(float(t), shape, df) for t in found.statistic]
    assert ours == pytest.approx(list(found.pvalue), abs=5e-4)  # scipy draws random numbers


@pytest.mark.parametrize("df", [1, 4, 40, 1000])
def test_one_row_alone_has_students_t(df: int) -> None:
    for t in (0.0, 0.5, 2.0, 6.0):
        assert largest_t_tail(t, loadings(3, [3]), df) == pytest.approx(t_tail(t, df), abs=1e-10)
        assert t_tail(-t, df) == pytest.approx(2 * stats.t.sf(t, df), abs=1e-12)


def test_twenty_rows_of_three_seeds_have_this_critical_value() -> None:
    shape = loadings(3, [3] * 19)
    critical = critical_t(shape, 40, 0.05)
    assert critical == pytest.approx(3.03994, abs=1e-5)
    assert largest_t_tail(critical, shape, 40) == pytest.approx(0.05, abs=1e-11)


def test_far_tails_and_many_rows() -> None:
    shape = loadings(10, [10] * 300)
    assert largest_t_tail(math.inf, shape, 2709) == 0
    assert 0 <= largest_t_tail(60.0, shape, 2709) < 1e-10
    assert largest_t_tail(0.0, shape, 2709) == pytest.approx(1)


def test_power_is_that_of_the_noncentral_t() -> None:
    for df, shift in ((4, 0.5), (4, 3.0), (40, 3.5)):
        reference = stats.nct.sf(3.04, df, shift) + stats.nct.cdf(-3.04, df, shift)
        assert power(shift, 3.04, df) == pytest.approx(reference, abs=1e-10)
    assert power(40.0, 3.04, 4) == pytest.approx(1)


def test_the_noncentrality_gives_the_power() -> None:
    assert power(noncentrality(3.04, 40, 0.8), 3.04, 40) == pytest.approx(0.8, abs=1e-9)
    # known from tables of sample sizes: two groups of 17 show 1 sd with probability 0.8
    assert noncentrality(2.0369, 32, 0.8) == pytest.approx(math.sqrt(17 / 2), abs=0.03)
