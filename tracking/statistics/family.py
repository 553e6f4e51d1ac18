"""The family of tests of one metric: every row of a study against one reference, over seeds, in the metric's units."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.dunnett import dunnett_p, welch_p
from tracking.statistics.finding import ALPHA, HOUR, Finding, kind_of
from tracking.statistics.moderated_tests import differences, exponential_intervals, intervals, moderated
from tracking.statistics.power import LEAST_SEEDS, Power

Values = Mapping[str, Mapping[int, float | None]]
"""Of one metric: row -> seed -> value. None means that it was not finite."""
LARGEST = 1e150  # a value beyond it counts as not finite: its square is
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
    """``tests`` without any row: nothing could be tested, and ``untested`` says why for every row."""

    metric: Metric
    reference: str
    tests: dict[str, RowTest] = field(default_factory=dict)  # by row, without the reference
    untested: dict[str, str] = field(default_factory=dict)  # the other rows, each with its reason
    seeds: dict[str, int] = field(default_factory=dict)  # of the reference and of the tested rows
    detectable: tuple[float, float] | None = None  # true differences marked with probability 0.8: least, largest row


@dataclass(frozen=True)
class Cost:
    """What the study says of its rows beyond scores."""

    seconds: Mapping[str, float | None] = field(default_factory=dict)  # of one seed, by row
    margin: float | None = None  # δ, in the metric's units


def family(
    metric: Metric,
    values: Values,
    reference: str,
    diverged: Mapping[str, Collection[int]] | None = None,
    cost: Cost = Cost(),
) -> Family | None:
    """Every row against the reference. ``values`` are logarithms if the metric is an exponential.

    A row with a diverged seed leaves the family; the reference stays with its other seeds. None if the reference is no
    row.
    """
    if reference not in values:
        return None
    lost = diverged or {}
    reasons = {row: why for row, of in values.items() if (why := why_untested(of, lost.get(row, ()), row == reference))}
    groups = {row: _finite(of) for row, of in values.items() if row not in reasons}
    if reference in reasons:
        why = f"{reference}: {reasons.pop(reference)}"
        reasons = dict.fromkeys(groups, why) | reasons
    elif _spreadless(groups):
        reasons = dict.fromkeys(groups, "no variance over seeds") | reasons
    elif len(groups) > 1:
        return _tested(metric, groups, reference, {row: reasons[row] for row in values if row in reasons}, cost)
    return Family(
        metric, reference, untested={row: reasons[row] for row in values if row in reasons and row != reference}
    )


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


def _tested(
    metric: Metric, groups: Mapping[str, list[float]], reference: str, reasons: dict[str, str], cost: Cost
) -> Family:
    base, rows = groups[reference], {row: of for row, of in groups.items() if row != reference}
    ordered = {reference: base, **rows}
    seeds = np.array([len(of) for of in ordered.values()])
    means = np.array([_mean(of) for of in ordered.values()])
    variances = np.array([np.var(of, ddof=1) for of in ordered.values()])
    found, power = differences(means, variances, seeds), Power(moderated(variances, seeds).likely)
    ends = intervals(found)
    lows, highs = exponential_intervals(found, means) if metric.exp_of else ends
    dunnett, welch = dunnett_p(base, rows), welch_p(base, rows)
    each: dict[str, RowTest] = {}
    for place, row in enumerate(rows):
        difference, low, high = (float(of[place]) for of in (_differences(metric, means), lows, highs))
        p = float(found.p_holm[place])
        kind = kind_of(metric, difference, low, high, p <= ALPHA, cost.margin)
        finding = Finding(kind, cost.margin)
        if kind == "undecided":
            effect = _effect(metric, cost.margin, float(means[0]), float(found.difference[place]))
            needed = power.seeds_needed(len(base), effect, place)
            finding = replace(finding, **_price(needed, (row, len(rows[row])), (reference, len(base)), cost))
        tested = float(found.difference[place]), float(ends[0][place]), float(ends[1][place])
        each[row] = RowTest(difference, low, high, p, dunnett[row], welch[row], finding, tested)
    least = [_in_units(metric, float(means[0]), float(end)) for end in power.detectable(seeds.tolist())]
    sizes = {row: len(of) for row, of in ordered.items()}
    return Family(metric, reference, each, reasons, sizes, (min(least), max(least)))


def _differences(metric: Metric, means: Any) -> Any:
    return np.exp(means[1:]) - np.exp(means[0]) if metric.exp_of else means[1:] - means[0]


def _effect(metric: Metric, margin: float | None, base: float, seen: float) -> float:
    """The difference to be decided, on the tested scale: δ, or the size seen."""
    if margin is None:
        return abs(seen)
    return math.log1p(margin / math.exp(base)) if metric.exp_of else margin


def _in_units(metric: Metric, base: float, difference: float) -> float:
    """A difference of logarithms as one of the metric, upward."""
    return math.exp(min(base, 350)) * math.expm1(min(difference, 350)) if metric.exp_of else difference


def _price(needed: int | None, row: tuple[str, int], base: tuple[str, int], cost: Cost) -> dict[str, Any]:
    """Seeds of the row, at least one more than now, and the hours that these and those of the reference take."""
    if needed is None:
        return {}
    seeds = max(needed, row[1] + 1)
    more = {name: max(0, seeds - now) for name, now in (row, base)}
    each = [(number, cost.seconds.get(name)) for name, number in more.items() if number]
    known = [number * seconds for number, seconds in each if seconds is not None]
    return {"seeds": seeds, "hours": sum(known) / HOUR if len(known) == len(each) else None}


def _finite(values: Mapping[int, float | None]) -> list[float]:
    """In the order of their seeds, so that the order of trials changes no digit."""
    known = [(seed, value) for seed, value in values.items() if value is not None and abs(value) < LARGEST]
    return [float(value) for _, value in sorted(known)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _spreadless(groups: Mapping[str, list[float]]) -> bool:
    largest = max((abs(value) for of in groups.values() for value in of), default=0.0)
    return all(np.std(of) <= NO_SPREAD * largest for of in groups.values())
