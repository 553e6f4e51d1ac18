"""Rows tested over seeds: by hand, against scipy, and with odd input."""

import math
import random
from pathlib import Path

import pytest
from scipy import stats

import tracking
from tracking.statistics.power import detectable
from tracking.statistics.seed_tests import (
    Family,
    RowTest,
    exponential,
    exponential_spread,
    family,
    through_exp,
    welch_p,
    why_untested,
)

Rows = dict[str, dict[int, float | None]]

HAND: Rows = {
    "base": {1: 10.0, 2: 11.0, 3: 12.0},  # mean 11, variance 1
    "a": {1: 15.0, 2: 16.0, 3: 17.0},  # mean 16, variance 1
    "b": {1: 10.0, 2: 12.0, 3: 14.0},  # mean 12, variance 4
}


def the_family(values: Rows, reference: str = "base") -> Family:
    found = family(values, reference)
    assert found is not None
    return found


def with_row(name: str, *values: float | None) -> Rows:
    return {**HAND, name: dict(enumerate(values, 1))}


def test_by_hand() -> None:
    """Pooled variance (2·1 + 2·1 + 2·4) / 6 = 2; standard error √(2 · (1/3 + 1/3)) = 1.1547; critical t 2.86."""
    found = the_family(HAND)
    assert (found.df, found.rows, found.seeds) == (6, 2, {"base": 3, "a": 3, "b": 3})
    assert found.pooled_sd == pytest.approx(math.sqrt(2))
    assert round(found.critical or 0, 2) == 2.86
    a, b = found.tests["a"], found.tests["b"]
    assert (a.difference, b.difference) == (5, 1)
    assert (a.low, a.high) == pytest.approx((5 - 2.86 * 1.1547, 5 + 2.86 * 1.1547), abs=0.01)
    assert (b.low, b.high) == pytest.approx((1 - 2.86 * 1.1547, 1 + 2.86 * 1.1547), abs=0.01)
    assert found.reference_mean == 11
    assert found.sds == pytest.approx({"base": 1, "a": 1, "b": 2})
    assert found.relative_sds == pytest.approx({"base": 0.7071, "a": 0.7071, "b": 1.4142}, abs=1e-4)
    assert found.largest_sd == ("b", found.relative_sds["b"])
    assert found.reference_sd == pytest.approx(1 / math.sqrt(2))
    assert (a.mark, b.mark, found.untested) == ("*", "", {})


def test_welch_by_hand() -> None:
    """a: t = 5 / √(1/3 + 1/3) = 6.1237 with 4 df. b: t = 1 / √(1/3 + 4/3) = 0.7746 with 2.9412 df."""
    p = {"a": 2 * stats.t.sf(6.123724, 4), "b": 2 * stats.t.sf(0.774597, 2.941176)}
    found = the_family(HAND).tests
    assert found["a"].p_welch == pytest.approx(2 * p["a"], rel=1e-5)  # Holm: the smaller of two
    assert found["b"].p_welch == pytest.approx(p["b"], rel=1e-5)


def test_scipy_computes_the_same() -> None:
    drawn = random.Random(7)
    values: Rows = {
        row: {seed: drawn.gauss(shift, 1) for seed in range(seeds)}
        for row, shift, seeds in (("base", 0, 4), ("same", 0, 3), ("more", 3, 3), ("less", -9, 5))
    }
    base, *rows = ([each or 0 for each in of.values()] for of in values.values())
    reference = stats.dunnett(*rows, control=base, rng=1)
    ends = reference.confidence_interval(0.95)
    found = the_family(values)
    assert [test.p for test in found.tests.values()] == pytest.approx(list(reference.pvalue), abs=5e-4)
    assert [test.low for test in found.tests.values()] == pytest.approx(list(ends.low), abs=0.02)
    assert [test.high for test in found.tests.values()] == pytest.approx(list(ends.high), abs=0.02)
    for row in rows:
        assert welch_p(row, base) == pytest.approx(float(stats.ttest_ind(row, base, equal_var=False).pvalue))


def test_p_and_interval_say_the_same() -> None:
    """A difference is shown exactly if its interval is without 0."""
    drawn = random.Random(3)
    for _ in range(20):
        rows: Rows = {f"r{i}": {s: drawn.gauss(i, 1) for s in range(3)} for i in range(4)}
        for test in the_family({"base": {s: drawn.gauss(0, 1) for s in range(3)}, **rows}).tests.values():
            assert test.shown == (test.low > 0 or test.high < 0)


def test_a_row_with_another_spread_is_shown_by_dunnett_alone() -> None:
    steady: Rows = {f"r{i}": {1: 10.0, 2: 10.1, 3: 10.2} for i in range(8)}
    found = the_family({"base": {1: 10.0, 2: 10.1, 3: 10.2}, **steady, "wild": {1: 10.0, 2: 13.0, 3: 16.0}})
    assert found.tests["wild"].mark == "†"
    assert found.largest_sd is not None
    assert found.largest_sd[0] == "wild"
    assert found.largest_sd[1] > 2


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ((), "no seed"),
        ((1.0,), "1 seed"),
        ((1.0, 2.0), "2 seeds"),
        ((None,), "no finite score"),
        ((1.0, None, 2.0), "1 of 3 seeds without a finite score"),
        ((1.0, 2.0, 3.0, math.nan), "1 of 4 seeds without a finite score"),
        ((math.inf, None, 3.0), "2 of 3 seeds without a finite score"),
        ((1.0, 2.0, 3.0), ""),
    ],
    ids=str,
)
def test_a_row_that_is_not_tested_leaves_family_and_pooled_variance(
    values: tuple[float | None, ...], reason: str
) -> None:
    assert why_untested(dict(enumerate(values))) == reason
    found = the_family(with_row("odd", *values))
    assert found.untested == ({"odd": reason} if reason else {})
    if reason:
        assert (found.tests, found.sds, found.df) == (the_family(HAND).tests, the_family(HAND).sds, 6)
    else:
        assert found.df == 8


def test_without_a_reference_that_can_be_tested_nothing_is() -> None:
    assert family(HAND, "absent") is None
    assert family({}, "base") is None
    found = the_family({**HAND, "base": {1: 10.0}, "c": {}})
    assert (found.tests, found.pooled_sd, found.critical) == ({}, None, None)
    assert found.untested == {"a": "base: 1 seed", "b": "base: 1 seed", "c": "no seed"}
    assert (found.largest_sd, found.reference_sd, found.relative_sds) == (None, None, {})


def test_seeds_that_all_agree_are_not_tested() -> None:
    flat: dict[int, float | None] = {1: 0.1 + 0.2, 2: 0.3, 3: 0.3}  # equal but for rounding
    found = the_family({"base": flat, "a": {1: 0.5, 2: 0.5, 3: 0.5}, "b": {1: 1.0}})
    assert (found.tests, found.untested) == ({}, {"a": "no variance over seeds", "b": "1 seed"})
    assert the_family({"base": {1: 0.0, 2: 0.0, 3: 0.0}, "a": {1: 0.0, 2: 0.0, 3: 0.0}}).tests == {}


def test_seeds_may_differ_in_number_and_order() -> None:
    values = with_row("c", 10.0, 11.0, 12.5, 13.0, 16.1)
    backwards = {row: dict(reversed(of.items())) for row, of in values.items()}
    assert the_family(values) == the_family(backwards)
    c, b = the_family(values).tests["c"], the_family(values).tests["b"]
    assert c.high - c.low < b.high - b.low


def test_perplexity_is_tested_as_its_logarithm() -> None:
    """Base PPL e^1.5 = 4.4817; ΔNLL 0.1 is 4.4817 · (e^0.1 − 1) = 0.4713, and −0.1 is −0.4265."""
    test = through_exp(RowTest(0.1, -0.1, 0.3, 0.2, 0.4), 1.5)
    assert (test.difference, test.low, test.high) == pytest.approx((0.4713, -0.4265, 1.5680), abs=1e-4)
    assert (test.p, test.p_welch) == (0.2, 0.4)
    found = the_family(HAND)
    assert exponential(found)["b"].difference == pytest.approx(math.exp(12) - math.exp(11))
    assert exponential(the_family({**HAND, "base": {1: 1.0}})) == {}


def test_mean_perplexity_is_that_of_the_mean_logarithm() -> None:
    """NLL 0 and ln 4: PPL 1 and 4, whose sd is 2.1213; e^(ln 4 / 2) = 2."""
    row = exponential_spread({1: 0.0, 2: math.log(4)})
    assert row is not None
    assert (row.mean, row.sd) == pytest.approx((2, 2.1213), abs=1e-4)
    assert exponential_spread({1: None}) is None
    assert exponential_spread({1: 1000.0}) is None  # not finite


def test_the_example_of_the_document() -> None:
    """Its figures are those that the program computes."""
    document = (Path(tracking.__file__).parents[1] / "docs" / "statistics.md").read_text("utf-8")
    found = the_family({"base": seeds(29, 30, 31), "small": seeds(24, 25, 26), "wide": seeds(29, 31, 33)})
    small, wide = found.tests["small"], found.tests["wide"]
    figures = [
        *(f"s = {found.pooled_sd:.4f}", f"it is {found.critical:.4f}", f"p = {small.p:.4f}", f"p = {wide.p:.4f}"),
        *(f"[{number.low:.2f}, {number.high:.2f}]".replace("-", "−") for number in (small, wide)),
        *(f"is {small.p_welch:.4f}", f"so it is {detectable(found, 'small') / 1.1547005:.4f} · 1.1547 = "),
        f"1.1547 = {detectable(found, 'small'):.2f}.",
    ]
    assert [figure for figure in figures if figure not in " ".join(document.split())] == []


def seeds(*values: float) -> dict[int, float | None]:
    return dict(enumerate(values, 1))
