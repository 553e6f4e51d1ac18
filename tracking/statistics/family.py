"""The family of tests of one metric: every row of a study against one reference, over seeds, in the
metric's units."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.finding import ALPHA, SECONDS_PER_HOUR, Finding, kind_of
from tracking.statistics.seed_tests import (
    LEAST_SEEDS,
    Differences,
    Power,
    differences,
    exponential_intervals,
    intervals,
    moderated,
)

SeedValues = Mapping[str, Mapping[int, float | None]]
"""Of one metric: row -> seed -> value. None means that it was not finite."""
LARGEST = 1e150  # a value beyond it counts as not finite, since its square is not
LARGEST_FACTOR_EXPONENT = 350.0  # the product of two e^350 is finite
NO_SPREAD = 1e-12  # of the largest value: less is rounding


@dataclass(frozen=True)
class RowTest:
    """One row's difference from the reference, as row minus reference."""

    difference: float
    low: float  # the ends of the simultaneous 95 % interval
    high: float
    p: float  # of the mark: with Holm's correction over the rows
    finding: Finding
    tested: tuple[float, float, float]  # the same three as tested: maybe of logarithms

    @property
    def marked(self) -> bool:
        return self.p <= ALPHA

    @property
    def unlike_its_interval(self) -> bool:
        """Whether it is marked although its interval holds 0: Holm's correction shows more than one
        for intervals."""
        return self.marked and self.low <= 0 <= self.high


@dataclass(frozen=True)
class Family:
    """``rows``: the test of each row but the reference, or why it has none."""

    metric: Metric
    reference: str
    rows: dict[str, RowTest | str]
    margin: float | None = None  # δ, in the metric's units
    seeds: dict[str, int] = field(default_factory=dict)  # of the reference and the tested rows
    detectable: tuple[float, float] | None = None  # with 80 % power: in the best row, in the worst
    paired: bool = False  # tested seed by seed: ``seeds`` are those in common, of rows only

    @property
    def tests(self) -> dict[str, RowTest]:
        return {row: test for row, test in self.rows.items() if not isinstance(test, str)}

    def withheld(self, reason: str) -> "Family":
        """The same without tests: ``reason`` replaces each."""
        reasons: dict[str, RowTest | str] = dict.fromkeys(self.tests, reason)
        return replace(self, rows=self.rows | reasons, detectable=None)


def family(
    metric: Metric,
    values: SeedValues,
    reference: str,
    diverged: Mapping[str, Collection[int]] | None = None,
    seconds: Mapping[str, float | None] | None = None,
    margin: float | None = None,
    families: int = 1,
) -> Family | None:
    """Every row against the reference. ``values`` are logarithms if the metric is an exponential;
    ``seconds`` are those of one seed, by row; ``margin`` is δ. If several ``families`` are read
    together, p values and intervals are adjusted over all of them (Bonferroni).

    A row with a diverged seed leaves the family; the reference stays with its other seeds. None if
    the reference is no row.
    """
    if reference not in values:
        return None
    reasons = dict[str, str]()
    for row, row_values in values.items():
        diverged_seeds = (diverged or {}).get(row, ())
        reasons[row] = why_untested(row_values, diverged_seeds, row == reference)
    groups = {
        row: list(finite(values[row]).values()) for row in (reference, *values) if not reasons[row]
    }
    reference_reason = reasons.pop(reference)
    shared_reason = ""
    if reference_reason:
        shared_reason = f"{reference}: {reference_reason}"
    elif _spreadless(groups):
        shared_reason = "no variance over seeds"
    if shared_reason or all(reasons.values()):
        return Family(
            metric, reference, {row: reason or shared_reason for row, reason in reasons.items()}
        )
    group_tests = _GroupTests(metric, groups, seconds or {}, margin, families)
    tests = group_tests.tests()
    rows = {row: reason or tests[row] for row, reason in reasons.items()}
    return Family(metric, reference, rows, margin, group_tests.sizes, group_tests.detectable())


def why_untested(
    values: Mapping[int, float | None], diverged: Collection[int] = (), reference: bool = False
) -> str:
    """Why a row with these values, those of seeds that did not diverge, cannot be tested; empty if
    it can."""
    if diverged and not reference:
        return f"{len(diverged)} of {len(diverged) + len(values)} diverged"
    not_finite = len(values) - len(finite(values))
    if not_finite and len(values) == 1:
        return "no finite score"
    if not_finite:
        return f"{not_finite} of {len(values)} seeds without a finite score"
    if len(values) < LEAST_SEEDS:
        return seed_count(len(values))
    return ""


def seed_count(seeds: int) -> str:
    """Such as "no seed", "1 seed" or "2 seeds"."""
    return f"{seeds or 'no'} {'seed' if seeds < 2 else 'seeds'}"


class FamilyTests:
    """The tests of the rows that can be tested. A subclass has the differences, their units and
    their power."""

    differences: Differences
    power: Power
    p_holm: Any  # [K] corrected over rows and families
    reference_means: Any  # [K] as tested, at the seeds with which each row is compared
    sizes: dict[str, int]

    def __init__(
        self,
        metric: Metric,
        reference: str,
        rows: Sequence[str],
        seconds: Mapping[str, float | None],
        margin: float | None,
        families: int,
    ) -> None:
        self.metric = metric
        self.reference = reference
        self.rows = rows
        self.seconds = seconds
        self.margin = margin
        self.families = families

    def tested_ends(self) -> Any:
        """[K, 3] difference, low and high, as tested."""
        raise NotImplementedError

    def ends_in_units(self) -> Any:
        """[K, 3] difference, low and high, in the metric's units."""
        raise NotImplementedError

    def missing_seeds(self, index: int, seeds: int) -> dict[str, int]:
        """How many seeds the row and the reference lack, each by name, if both need ``seeds``."""
        raise NotImplementedError

    def tests(self) -> dict[str, RowTest]:
        in_units_K3 = self.ends_in_units().tolist()
        tested_K3 = self.tested_ends().tolist()
        tests = {}
        for index, row in enumerate(self.rows):
            tests[row] = self._row_test(index, in_units_K3[index], tested_K3[index])
        return tests

    def detectable(self) -> tuple[float, float]:
        differences = self.power.detectable([*self.sizes.values()])
        in_units = [self._in_units(float(value), index) for index, value in enumerate(differences)]
        return min(in_units), max(in_units)

    def _row_test(self, index: int, in_units: list[float], tested: list[float]) -> RowTest:
        difference, low, high = in_units
        tested_difference, tested_low, tested_high = tested
        p = float(self.p_holm[index])
        kind = kind_of(self.metric, difference, low, high, p <= ALPHA, self.margin)
        finding = Finding(kind, self.margin)
        if kind == "undecided":
            finding = self._undecided(index, tested_difference)
        tested_ends = (tested_difference, tested_low, tested_high)
        return RowTest(difference, low, high, p, finding, tested_ends)

    def _undecided(self, index: int, tested_difference: float) -> Finding:
        """With the seeds of row and reference that would decide, and the hours that the missing
        ones take."""
        undecided = Finding("undecided", self.margin)
        effect = self._effect(tested_difference, index)
        seeds = self.power.seeds_needed([*self.sizes.values()], effect, index)
        if seeds is None:
            return undecided
        missing = self.missing_seeds(index, seeds)
        further = {row: number for row, number in missing.items() if number > 0}
        if not further:
            return replace(undecided, seeds=self.sizes[self.rows[index]], enough=True)
        return replace(undecided, seeds=seeds, hours=self._hours(further))

    def _hours(self, seeds_of_row: Mapping[str, int]) -> float | None:
        """What these seeds take; None if that of any row is unknown."""
        total = 0.0
        for row, number in seeds_of_row.items():
            seconds = self.seconds.get(row)
            if seconds is None:
                return None
            total += number * seconds
        return total / SECONDS_PER_HOUR

    def _effect(self, tested_difference: float, index: int) -> float:
        """The difference to be decided, on the tested scale: δ, or the size of the difference."""
        if self.margin is None:
            return abs(tested_difference)
        if not self.metric.exp_of:
            return self.margin
        return math.log1p(self.margin / math.exp(self.reference_means[index]))

    def _in_units(self, difference: float, index: int) -> float:
        """A difference of logarithms as one of the metric, upward."""
        if not self.metric.exp_of:
            return difference
        mean = min(float(self.reference_means[index]), LARGEST_FACTOR_EXPONENT)
        return math.exp(mean) * math.expm1(min(difference, LARGEST_FACTOR_EXPONENT))


class _GroupTests(FamilyTests):
    """Of rows that need no seed in common with the reference, which is the first group."""

    def __init__(
        self,
        metric: Metric,
        groups: Mapping[str, list[float]],
        seconds: Mapping[str, float | None],
        margin: float | None,
        families: int,
    ) -> None:
        reference, *rows = groups
        super().__init__(metric, reference, rows, seconds, margin, families)
        self.sizes = {row: len(values) for row, values in groups.items()}
        self.means = np.array([math.fsum(values) / len(values) for values in groups.values()])
        self.reference_means = np.full(len(rows), self.means[0])
        variances = np.array([np.var(values, ddof=1) for values in groups.values()])
        seeds = np.array([*self.sizes.values()])
        self.differences = differences(self.means, variances, seeds)
        self.power = Power(moderated(variances, seeds).likely, families)
        self.p_holm = np.minimum(1.0, self.differences.p_holm * families)

    def tested_ends(self) -> Any:
        low, high = intervals(self.differences, ALPHA / self.families)
        return np.stack([self.differences.difference, low, high], axis=1)

    def ends_in_units(self) -> Any:
        if not self.metric.exp_of:
            return self.tested_ends()
        alpha = ALPHA / self.families
        low, high = exponential_intervals(self.differences, self.means, alpha)
        difference = np.exp(self.means[1:]) - np.exp(self.means[0])
        return np.stack([difference, low, high], axis=1)

    def missing_seeds(self, index: int, seeds: int) -> dict[str, int]:
        return {name: seeds - self.sizes[name] for name in (self.rows[index], self.reference)}


def finite(values: Mapping[int, float | None]) -> dict[int, float]:
    """In the order of their seeds, so that the order of trials changes no digit."""
    finite_values = dict[int, float]()
    for seed in sorted(values):
        value = values[seed]
        if value is not None and abs(value) < LARGEST:
            finite_values[seed] = float(value)
    return finite_values


def _spreadless(groups: Mapping[str, list[float]]) -> bool:
    largest = max((abs(value) for group in groups.values() for value in group), default=0.0)
    return all(np.std(values) <= NO_SPREAD * largest for values in groups.values())
