"""Dunnett's and Welch's p: against printed tables and scipy."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.statistics import critical_t
from tracking.statistics.dunnett import dunnett_p, welch_p
from tracking.statistics.moderated_tests import holm


@pytest.mark.parametrize(
    ("seeds", "printed"),
    [([6, 6], 2.23), ([3, 3, 3], 2.86), ([3] * 10, 2.95), ([7] * 10, 2.77)],
    ids=str,
)
def test_critical_values_are_those_of_dunnetts_printed_table(seeds: list[int], printed: float) -> None:
    assert round(critical_t(seeds), 2) == printed


@pytest.mark.parametrize("sizes", [[3, 3, 3], [3, 4, 5, 7], [10, 3, 3], [3, 20]], ids=str)
def test_scipy_computes_the_same(sizes: list[int]) -> None:
    chance = np.random.default_rng(len(sizes))
    base, *rows = (chance.normal(size=size).tolist() for size in sizes)
    named = {str(place): row for place, row in enumerate(rows)}
    reference = stats.dunnett(*rows, control=base, rng=np.random.default_rng(1))
    assert list(dunnett_p(base, named).values()) == pytest.approx(list(reference.pvalue), abs=5e-4)  # it draws
    welch = [stats.ttest_ind(row, base, equal_var=False).pvalue for row in rows]
    assert list(welch_p(base, named).values()) == pytest.approx(list(holm(np.array(welch))))
