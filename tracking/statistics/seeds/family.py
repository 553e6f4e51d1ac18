"""The family of tests of one metric: rows of a study against their reference, over seeds, in the
metric's units. Where rows have different references, their families are corrected together."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.seeds.finding import ALPHA, LEAST_SEEDS, SECONDS_PER_HOUR, Finding, kind_of
from tracking.statistics.seeds.seed_tests import (
    Comparisons,
    Differences,
    Power,
    differences,
    exponential_intervals,
    intervals,
    moderated,
)

SeedValues = Mapping[str, Mapping[int, float | None]]
"""Of one metric: row -> seed -> value. None means that it was not finite."""
References = Mapping[str, str]
"""Row -> the row with which it is compared."""
Tested = Mapping[str, "RowTest | str"]
"""Row -> its test, or why it has none."""
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
    """``rows``: the test of each row that is compared with the reference, or why it has none.
    ``comparisons`` is the number of tests over which p values and intervals are adjusted."""

    metric: Metric
    reference: str
    rows: dict[str, RowTest | str]
    margin: float | None = None  # δ, in the metric's units
    seeds: dict[str, int] = field(default_factory=dict)  # of the reference and the tested rows
    detectable: tuple[float, float] | None = None  # with 80 % power: in the best row, in the worst
    paired: bool = False  # tested seed by seed: ``seeds`` are those in common, of rows only
    shares_weights: bool = False  # whether its rows score weights that the reference scores, too
    comparisons: int = 0

    @property
    def tests(self) -> dict[str, RowTest]:
        return {row: test for row, test in self.rows.items() if not isinstance(test, str)}

    def withheld(self, reason: str) -> "Family":
        """The same without tests: ``reason`` replaces each."""
        reasons: dict[str, RowTest | str] = dict.fromkeys(self.tests, reason)
        return replace(self, rows=self.rows | reasons, detectable=None)


@dataclass(frozen=True)
class SeedScores:
    """One metric by row and seed, and what its tests need to know.

    ``values`` are logarithms if the metric is an exponential; ``seconds`` are those of one seed, by
    row; ``margin`` is δ. If ``n_families`` are read together, p values and intervals are adjusted
    over all of them (Bonferroni).
    """

    metric: Metric
    values: SeedValues
    diverged: Mapping[str, Collection[int]] = field(default_factory=dict)
    seconds: Mapping[str, float | None] = field(default_factory=dict)
    margin: float | None = None
    n_families: int = 1

    def diverged_seeds(self, row: str) -> Collection[int]:
        return self.diverged.get(row, ())

    def reference_fault(self, reference: str) -> str:
        """Why no row can be tested against this one; empty if one can."""
        if reference not in self.values:
            return f"no {reference}"
        diverged = self.diverged_seeds(reference)
        fault = why_untested(self.values[reference], diverged, reference=True)
        return fault and f"{reference}: {fault}"


def family(scores: SeedScores, reference: str) -> Family | None:
    """Every row against the reference. None if the reference is no row."""
    if reference not in scores.values:
        return None
    references = {row: reference for row in scores.values if row != reference}
    tested = families_of(scores, references)
    return tested.get(reference, Family(scores.metric, reference, {}))


def families_of(scores: SeedScores, references: References) -> dict[str, Family]:
    """By reference, the family of the rows that are compared with it. All are tested together.

    A row with a diverged seed is not tested; as a reference it stays with its other seeds.
    """
    values = scores.values
    reasons = dict[str, str]()
    for row, reference in references.items():
        fault = why_untested(values[row], scores.diverged_seeds(row))
        reasons[row] = fault or scores.reference_fault(reference)
    groups = _groups(values, references, reasons)
    if _spreadless(groups):
        reasons = {row: reason or "no variance over seeds" for row, reason in reasons.items()}
    if all(reasons.values()):
        return one_per_reference(scores.metric, references, reasons)
    compared = {row: reference for row, reference in references.items() if not reasons[row]}
    return _GroupTests(scores, compared, groups).families(references, reasons)


def _groups(
    values: SeedValues, references: References, reasons: Mapping[str, str]
) -> dict[str, list[float]]:
    """The finite values of the rows that can be tested, after those of their references."""
    rows = [row for row in references if not reasons[row]]
    names = dict.fromkeys([*(references[row] for row in rows), *rows])
    return {name: list(finite(values[name]).values()) for name in names}


def one_per_reference(
    metric: Metric, references: References, rows: Tested, paired: bool = False
) -> dict[str, Family]:
    """The tests or reasons of these rows, as one family for each reference."""
    rows_of_reference: dict[str, dict[str, RowTest | str]] = {}
    for row, reference in references.items():
        rows_of_reference.setdefault(reference, {})[row] = rows[row]
    return {
        reference: Family(metric, reference, compared, paired=paired)
        for reference, compared in rows_of_reference.items()
    }


def why_untested(
    values: Mapping[int, float | None], diverged: Collection[int] = (), reference: bool = False
) -> str:
    """Why a row with these values, those of seeds that did not diverge, cannot be tested; empty if
    it can."""
    if diverged and not (reference and values):
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


class FamilyTests(ABC):
    """The tests of the rows that can be tested. A subclass has the differences, their ends in units
    and their power."""

    differences: Differences
    power: Power
    reference_means: Any  # [K] as tested, at the seeds with which each row is compared
    sizes: dict[str, int]
    paired = False

    def __init__(self, scores: SeedScores, references: References) -> None:
        self.scores = scores
        self.metric = scores.metric
        self.references = references
        self.rows = list(references)
        self.alpha = ALPHA / scores.n_families

    def tested_ends(self) -> Any:
        """[K, 3] difference, low and high, as tested."""
        low, high = intervals(self.differences, self.alpha)
        return np.stack([self.differences.difference, low, high], axis=1)

    @abstractmethod
    def exponential_ends(self) -> Any:
        """[K, 3] difference, low and high of a metric whose logarithms were tested."""

    @abstractmethod
    def missing_seeds(self, index: int, seeds: int) -> dict[str, int]:
        """How many seeds the row and its reference lack, each by name, if both need ``seeds``."""

    def families(self, references: References, reasons: Mapping[str, str]) -> dict[str, Family]:
        """One family for each reference, also with the rows that were not tested."""
        tests = self.tests()
        rows: Tested = {row: reasons[row] or tests[row] for row in references}
        detectable = self.detectable()
        families = one_per_reference(self.metric, references, rows, self.paired)
        for reference, family in families.items():
            if family.tests:
                differences = [detectable[row] for row in family.tests]
                families[reference] = replace(
                    family,
                    margin=self.scores.margin,
                    seeds=self._seeds(family),
                    detectable=(min(differences), max(differences)),
                    comparisons=len(self.rows),
                )
        return families

    def _seeds(self, family: Family) -> dict[str, int]:
        """Of the tested rows, and, unless these are seeds in common, of the reference."""
        names = list(family.tests)
        if not self.paired:
            names.insert(0, family.reference)
        return {name: self.sizes[name] for name in names}

    def tests(self) -> dict[str, RowTest]:
        tested_K3 = self.tested_ends()
        in_units_K3 = self.exponential_ends() if self.metric.exp_of else tested_K3
        tests = {}
        for index, row in enumerate(self.rows):
            tests[row] = self._row_test(
                index, in_units_K3[index].tolist(), tested_K3[index].tolist()
            )
        return tests

    def detectable(self) -> dict[str, float]:
        """By row, the difference that has 80 % power, in the metric's units."""
        differences = self.power.detectable([*self.sizes.values()]).tolist()
        return {
            row: self._in_units(difference, index)
            for index, (row, difference) in enumerate(zip(self.rows, differences, strict=True))
        }

    def _row_test(self, index: int, in_units: list[float], tested: list[float]) -> RowTest:
        difference, low, high = in_units
        tested_difference, tested_low, tested_high = tested
        p = min(1.0, float(self.differences.p_holm[index] * self.scores.n_families))
        margin = self.scores.margin
        kind = kind_of(self.metric, difference, low, high, p <= ALPHA, margin)
        finding = Finding(kind, margin)
        if kind == "undecided":
            finding = self._undecided(index, tested_difference)
        tested_ends = (tested_difference, tested_low, tested_high)
        return RowTest(difference, low, high, p, finding, tested_ends)

    def _undecided(self, index: int, tested_difference: float) -> Finding:
        """With the seeds of row and reference that would decide, and the hours that the missing
        ones take."""
        undecided = Finding("undecided", self.scores.margin)
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
            seconds = self.scores.seconds.get(row)
            if seconds is None:
                return None
            total += number * seconds
        return total / SECONDS_PER_HOUR

    def _effect(self, tested_difference: float, index: int) -> float:
        """The difference to be decided, on the tested scale: δ, or the size of the difference."""
        margin = self.scores.margin
        if margin is None:
            return abs(tested_difference)
        if not self.metric.exp_of:
            return margin
        return math.log1p(margin / math.exp(self.reference_means[index]))

    def _in_units(self, difference: float, index: int) -> float:
        """A difference of logarithms as one of the metric, upward."""
        if not self.metric.exp_of:
            return difference
        mean = min(float(self.reference_means[index]), LARGEST_FACTOR_EXPONENT)
        return math.exp(mean) * math.expm1(min(difference, LARGEST_FACTOR_EXPONENT))


class _GroupTests(FamilyTests):
    """Of rows that need no seed in common with their reference. ``groups`` also has references."""

    def __init__(
        self, scores: SeedScores, references: References, groups: Mapping[str, list[float]]
    ) -> None:
        super().__init__(scores, references)
        self.sizes = {row: len(values) for row, values in groups.items()}
        self.means = np.array([math.fsum(values) / len(values) for values in groups.values()])
        places = {name: place for place, name in enumerate(groups)}
        self.comparisons = Comparisons(
            np.array([places[row] for row in self.rows]),
            np.array([places[references[row]] for row in self.rows]),
        )
        self.reference_means = self.means[self.comparisons.references]
        variances = np.array([np.var(values, ddof=1) for values in groups.values()])
        seeds = np.array([*self.sizes.values()])
        self.differences = differences(self.means, variances, seeds, self.comparisons)
        posterior = moderated(variances, seeds, self.comparisons).posterior
        self.power = Power(posterior, scores.n_families, self.comparisons)

    def exponential_ends(self) -> Any:
        low, high = exponential_intervals(
            self.differences, self.means, self.alpha, self.comparisons
        )
        row_means = self.means[self.comparisons.rows]
        difference = np.exp(row_means) - np.exp(self.reference_means)
        return np.stack([difference, low, high], axis=1)

    def missing_seeds(self, index: int, seeds: int) -> dict[str, int]:
        row = self.rows[index]
        return {name: seeds - self.sizes[name] for name in (row, self.references[row])}


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
