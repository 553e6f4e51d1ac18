"""The family of tests of one metric: every row of a study against one reference, over seeds, in the metric's units."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.finding import ALPHA, HOUR, Finding, kind_of
from tracking.statistics.seed_tests import (
    LEAST_SEEDS,
    Power,
    differences,
    dunnett_p,
    exponential_intervals,
    intervals,
    moderated,
    welch_p,
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
    p_dunnett: float
    p_welch: float
    finding: Finding
    tested: tuple[float, float, float]  # difference, low and high as tested: of logarithms, where those are tested

    @property
    def marked(self) -> bool:
        return self.p <= ALPHA

    @property
    def unlike_its_interval(self) -> bool:
        """Whether it is marked although its interval holds 0: Holm's correction shows more than one for intervals."""
        return self.marked and self.low <= 0 <= self.high


@dataclass(frozen=True)
class Family:
    """``rows``: the test of each row but the reference, or why it has none."""

    metric: Metric
    reference: str
    rows: dict[str, RowTest | str]
    margin: float | None = None  # δ, in the metric's units
    seeds: dict[str, int] = field(default_factory=dict)  # of the reference and of the tested rows
    detectable: tuple[float, float] | None = None  # true differences marked with probability 0.8: least, largest row

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
    """Every row against the reference. ``values`` are logarithms if the metric is an exponential; ``seconds`` are those
    of one seed, by row; ``margin`` is δ. Of several ``families`` that are read together, p values and intervals are
    adjusted over all (Bonferroni).

    A row with a diverged seed leaves the family; the reference stays with its other seeds. None if the reference is no
    row.
    """
    if reference not in values:
        return None
    lost = diverged or {}
    reasons = {row: why_untested(of, lost.get(row, ()), row == reference) for row, of in values.items()}
    groups = {row: _finite(values[row]) for row in (reference, *values) if not reasons[row]}
    why = reasons.pop(reference)
    shared = f"{reference}: {why}" if why else "no variance over seeds" if _spreadless(groups) else ""
    if shared or all(reasons.values()):
        return Family(metric, reference, {row: of or shared for row, of in reasons.items()})
    found = _Tests(metric, groups, seconds or {}, margin, families)
    tests = found.tests()
    rows = {row: of or tests[row] for row, of in reasons.items()}
    return Family(metric, reference, rows, margin, found.sizes, found.detectable())


def why_untested(values: Mapping[int, float | None], diverged: Collection[int] = (), reference: bool = False) -> str:
    """Why a row with these values, those of seeds that did not diverge, cannot be tested; empty if it can."""
    if diverged and not reference:
        return f"{len(diverged)} of {len(diverged) + len(values)} diverged"
    lost = len(values) - len(_finite(values))
    if lost:
        return f"{lost} of {len(values)} seeds without a finite score" if len(values) > 1 else "no finite score"
    if len(values) < LEAST_SEEDS:
        return {0: "no seed", 1: "1 seed"}.get(len(values), f"{len(values)} seeds")
    return ""


class _Tests:
    """The tests of groups that can be tested, the reference first."""

    def __init__(
        self,
        metric: Metric,
        groups: Mapping[str, list[float]],
        seconds: Mapping[str, float | None],
        margin: float | None,
        families: int,
    ) -> None:
        self.metric, self.seconds, self.margin, self.families = metric, seconds, margin, families
        self.reference, *self.rows = groups
        self.sizes, each = {row: len(of) for row, of in groups.items()}, [*groups.values()]
        self.means = np.array([math.fsum(of) / len(of) for of in each])
        variances, seeds = np.array([np.var(of, ddof=1) for of in each]), np.array([*self.sizes.values()])
        self.found = differences(self.means, variances, seeds)
        self.power = Power(moderated(variances, seeds).likely, families)
        known_K3 = np.stack([self.found.p_holm, dunnett_p(each), welch_p(each)], axis=1)
        self.p_K3 = np.minimum(1.0, known_K3 * families)

    def tests(self) -> dict[str, RowTest]:
        alpha, means = ALPHA / self.families, self.means
        tested_K3 = np.stack([self.found.difference, *intervals(self.found, alpha)], axis=1)
        in_units_K3 = tested_K3
        if self.metric.exp_of:
            ends = exponential_intervals(self.found, means, alpha=alpha)
            in_units_K3 = np.stack([np.exp(means[1:]) - np.exp(means[0]), *ends], axis=1)
        each = zip(self.rows, in_units_K3.tolist(), self.p_K3.tolist(), tested_K3.tolist(), strict=True)
        return {row: self._row_test(place, *numbers) for place, (row, *numbers) in enumerate(each)}

    def detectable(self) -> tuple[float, float]:
        least = [self._in_units(float(end)) for end in self.power.detectable([*self.sizes.values()])]
        return min(least), max(least)

    def _row_test(self, place: int, in_units: list[float], p: list[float], tested: list[float]) -> RowTest:
        (difference, low, high), (of_mark, dunnett, welch), (seen, least, most) = in_units, p, tested
        kind = kind_of(self.metric, difference, low, high, of_mark <= ALPHA, self.margin)
        decides = self._deciding(place, seen) if kind == "undecided" else {}
        finding = Finding(kind, self.margin, **decides)
        return RowTest(difference, low, high, of_mark, dunnett, welch, finding, (seen, least, most))

    def _deciding(self, place: int, seen: float) -> dict[str, Any]:
        """Seeds of the row and of the reference, and the hours that those take which are not there yet."""
        row = self.rows[place]
        seeds = self.power.seeds_needed([*self.sizes.values()], self._effect(seen), place)
        if seeds is None:
            return {}
        if seeds <= min(self.sizes[row], self.sizes[self.reference]):
            return {"seeds": self.sizes[row], "enough": True}
        more = {name: seeds - self.sizes[name] for name in (row, self.reference) if seeds > self.sizes[name]}
        took = {name: self.seconds.get(name) for name in more}
        known = [more[name] * seconds for name, seconds in took.items() if seconds is not None]
        return {"seeds": seeds, "hours": sum(known) / HOUR if len(known) == len(more) else None}

    def _effect(self, seen: float) -> float:
        """The difference to be decided, on the tested scale: δ, or the size seen."""
        if self.margin is None:
            return abs(seen)
        return math.log1p(self.margin / math.exp(self.means[0])) if self.metric.exp_of else self.margin

    def _in_units(self, difference: float) -> float:
        """A difference of logarithms as one of the metric, upward."""
        if not self.metric.exp_of:
            return difference
        return math.exp(min(self.means[0], SOME_EXPONENT)) * math.expm1(min(difference, SOME_EXPONENT))


def _finite(values: Mapping[int, float | None]) -> list[float]:
    """In the order of their seeds, so that the order of trials changes no digit."""
    known = [(seed, value) for seed, value in values.items() if value is not None and abs(value) < LARGEST]
    return [float(value) for _, value in sorted(known)]


def _spreadless(groups: Mapping[str, list[float]]) -> bool:
    largest = max((abs(value) for of in groups.values() for value in of), default=0.0)
    return all(np.std(of) <= NO_SPREAD * largest for of in groups.values())
