"""The tests over seeds err and find as often as they promise, in simulated studies."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from benchmarks.statistics import (
    CASES,
    SEEDS,
    Case,
    by_dunnett,
    by_welch,
    check_against_table,
    marks,
    shares,
    unequal_variances,
)
from tracking.statistics.seed_tests import exponential, family

EQUAL, WILD_ROW, WILD_BASE, DIFFERENT = CASES
STUDIES = 4000


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_simulation_flags_what_the_table_marks(case: Case) -> None:
    check_against_table(case, 10)


def test_a_thousand_studies_without_a_difference_flag_in_five_percent() -> None:
    assert shares(EQUAL, 1000).errors["Dunnett"] == pytest.approx(0.05, abs=0.02)


def test_a_row_that_differs_is_found() -> None:
    found = shares(DIFFERENT, 1000)
    assert found.found["Dunnett"] >= 0.8
    assert found.errors["Dunnett"] <= 0.07


def test_unequal_variances_cost_dunnetts_test_its_level_but_not_both_together() -> None:
    row, base = shares(WILD_ROW, STUDIES), shares(WILD_BASE, STUDIES)
    assert row.errors["Dunnett"] > 0.2
    assert base.errors["Dunnett"] > 0.2
    for found in (row, base):
        assert found.errors["Welch + Holm"] < 0.05
        assert found.errors["both"] <= found.errors["Welch + Holm"]
    assert row.unequal_seen < 0.1  # so a test of the assumption would not help


def test_an_exponential_is_flagged_as_its_logarithm() -> None:
    """What holds for a metric holds for one that is its exponential: p stays."""
    values = EQUAL.draw(1, np.random.default_rng(1))[0] / 100
    found = family({f"r{row}": dict(enumerate(map(float, of))) for row, of in enumerate(values)}, "r0")
    assert found is not None
    assert [test.mark for test in exponential(found).values()] == marks(values[None])[0]


def test_references() -> None:
    """Dunnett's and Brown–Forsythe's tests by scipy, Holm's adjustment by statsmodels, on one case with flags."""
    values = DIFFERENT.draw(3, np.random.default_rng(2))
    values[:, 2] += 9
    for study, dunnett, welch, unequal in zip(
        values, by_dunnett(values), by_welch(values), unequal_variances(values), strict=True
    ):
        base, *rows = study
        p = [stats.ttest_ind(row, base, equal_var=False).pvalue for row in rows]
        assert list(welch) == list(multipletests(p, method="holm")[0])
        assert bool(unequal) == (stats.levene(*study, center="median").pvalue <= 0.05)
        errors = np.sqrt(study.var(axis=1, ddof=1).mean() * 2 / SEEDS)
        assert list(dunnett) == [abs(row.mean() - base.mean()) / errors >= 3.03994 for row in rows]
    assert by_dunnett(values)[:, 1].all()


def test_scipys_dunnett_flags_the_same_rows() -> None:
    study = DIFFERENT.draw(1, np.random.default_rng(4))
    p = stats.dunnett(*study[0, 1:], control=study[0, 0], rng=np.random.default_rng(1)).pvalue
    assert list(by_dunnett(study)[0]) == [value <= 0.05 for value in p]
    assert by_dunnett(study)[0, 0]
