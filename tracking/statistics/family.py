"""The family of tests of one metric: every row of a study against one reference, over seeds, in the
metric's units."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.finding import ALPHA, HOUR, Finding, kind_of
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
LARGEST = 1e150  # a value beyond it counts as not finite: its square is
SOME_EXPONENT = 350.0  # the product of two e^350 is finite
NO_SPREAD = 1e-12  # of the largest value: less is rounding


@dataclass(frozen=True)
class RowTest:
    """One row's difference from the reference, as row minus reference."""

    difference: float
    low: float  # the ends of the simultaneous 95 % interval
    high: float
    p: float  # of the mark: with Holm's correction over the rows
    finding: Finding
    tested: tuple[
        float, float, float
    ]  # difference, low and high as tested: of logarithms, where those are tested

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
    seeds: dict[str, int] = field(default_factory=dict)  # of the reference and of the tested rows
    detectable: tuple[float, float] | None = (
        None  # true differences marked with probability 0.8: least, largest row
    )
    paired: bool = False  # whether rows were tested seed by seed; ``seeds`` are then those in common, of rows alone

    @property
    def tests(self) -> dict[str, RowTest]:
        return {row: test for row, test in self.rows.items() if not isinstance(test, str)}


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
    ``seconds`` are those of one seed, by row; ``margin`` is δ. Of several ``families`` that are
    read together, p values and intervals are adjusted over all (Bonferroni).

    A row with a diverged seed leaves the family; the reference stays with its other seeds. None if
    the reference is no row.
    """
    if reference not in values:
        return None
    lost = diverged or {}
    reasons = {
        row: why_untested(of, lost.get(row, ()), row == reference) for row, of in values.items()
    }
    groups = {
        row: list(finite(values[row]).values()) for row in (reference, *values) if not reasons[row]
    }
    why = reasons.pop(reference)
    shared = (
        f"{reference}: {why}" if why else "no variance over seeds" if _spreadless(groups) else ""
    )
    if shared or all(reasons.values()):
        return Family(metric, reference, {row: of or shared for row, of in reasons.items()})
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
    lost = len(values) - len(finite(values))
    if lost:
        return (
            f"{lost} of {len(values)} seeds without a finite score"
            if len(values) > 1
            else "no finite score"
        )
    if len(values) < LEAST_SEEDS:
        return {0: "no seed", 1: "1 seed"}.get(len(values), f"{len(values)} seeds")
    return ""


class FamilyTests:
    """The tests of the rows that can be tested. A kind of test says what was found, in which units,
    over what power."""

    found: Differences
    power: Power
    p_holm: Any  # [K] corrected over rows and families
    reference_means: (
        Any  # [K] of the reference at the seeds to which each row is compared, as tested
    )
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

    def missing_seeds(self, place: int, seeds: int) -> dict[str, int]:
        """How many seeds of the row and of the reference are not there yet."""
        raise NotImplementedError

    def tests(self) -> dict[str, RowTest]:
        in_units_K3 = self.ends_in_units().tolist()
        tested_K3 = self.tested_ends().tolist()
        return {
            row: self._row_test(place, in_units_K3[place], tested_K3[place])
            for place, row in enumerate(self.rows)
        }

    def detectable(self) -> tuple[float, float]:
        ends = self.power.detectable([*self.sizes.values()])
        least = [self._in_units(float(end), place) for place, end in enumerate(ends)]
        return min(least), max(least)

    def _row_test(self, place: int, in_units: list[float], tested: list[float]) -> RowTest:
        (difference, low, high), (seen, least, most) = in_units, tested
        p = float(self.p_holm[place])
        kind = kind_of(self.metric, difference, low, high, p <= ALPHA, self.margin)
        decides = self._deciding(place, seen) if kind == "undecided" else {}
        finding = Finding(kind, self.margin, **decides)
        return RowTest(difference, low, high, p, finding, (seen, least, most))

    def _deciding(self, place: int, seen: float) -> dict[str, Any]:
        """Seeds of the row and of the reference, and the hours that those take which are not there
        yet."""
        effect = self._effect(seen, place)
        seeds = self.power.seeds_needed([*self.sizes.values()], effect, place)
        if seeds is None:
            return {}
        more = {
            name: number for name, number in self.missing_seeds(place, seeds).items() if number > 0
        }
        if not more:
            return {"seeds": self.sizes[self.rows[place]], "enough": True}
        took = {name: self.seconds.get(name) for name in more}
        known = [more[name] * seconds for name, seconds in took.items() if seconds is not None]
        return {"seeds": seeds, "hours": sum(known) / HOUR if len(known) == len(more) else None}

    def _effect(self, seen: float, place: int) -> float:
        """The difference to be decided, on the tested scale: δ, or the size seen."""
        if self.margin is None:
            return abs(seen)
        if not self.metric.exp_of:
            return self.margin
        return math.log1p(self.margin / math.exp(self.reference_means[place]))

    def _in_units(self, difference: float, place: int) -> float:
        """A difference of logarithms as one of the metric, upward."""
        if not self.metric.exp_of:
            return difference
        mean = min(float(self.reference_means[place]), SOME_EXPONENT)
        return math.exp(mean) * math.expm1(min(difference, SOME_EXPONENT))


class _GroupTests(FamilyTests):
    """Of groups that need no seed in common, the reference first."""

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
        values = [*groups.values()]
        self.sizes = {row: len(of_row) for row, of_row in groups.items()}
        self.means = np.array([math.fsum(of_row) / len(of_row) for of_row in values])
        self.reference_means = np.full(len(rows), self.means[0])
        variances = np.array([np.var(of_row, ddof=1) for of_row in values])
        seeds = np.array([*self.sizes.values()])
        self.found = differences(self.means, variances, seeds)
        self.power = Power(moderated(variances, seeds).likely, families)
        self.p_holm = np.minimum(1.0, self.found.p_holm * families)

    def tested_ends(self) -> Any:
        alpha = ALPHA / self.families
        return np.stack([self.found.difference, *intervals(self.found, alpha)], axis=1)

    def ends_in_units(self) -> Any:
        if not self.metric.exp_of:
            return self.tested_ends()
        ends = exponential_intervals(self.found, self.means, alpha=ALPHA / self.families)
        difference = np.exp(self.means[1:]) - np.exp(self.means[0])
        return np.stack([difference, *ends], axis=1)

    def missing_seeds(self, place: int, seeds: int) -> dict[str, int]:
        return {name: seeds - self.sizes[name] for name in (self.rows[place], self.reference)}


def finite(values: Mapping[int, float | None]) -> dict[int, float]:
    """In the order of their seeds, so that the order of trials changes no digit."""
    known = [
        (seed, value)
        for seed, value in values.items()
        if value is not None and abs(value) < LARGEST
    ]
    return {seed: float(value) for seed, value in sorted(known)}


def _spreadless(groups: Mapping[str, list[float]]) -> bool:
    largest = max((abs(value) for group in groups.values() for value in group), default=0.0)
    return all(np.std(of) <= NO_SPREAD * largest for of in groups.values())
