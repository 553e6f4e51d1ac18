"""Differences between rows tested over seeds: Dunnett's test of every row against one reference, and Welch's with it.

The formulas, with an example by hand, are in docs/statistics.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tracking.statistics.distributions import Loadings, critical_t, largest_t_tail, loadings, t_tail
from tracking.statistics.holm import holm

ALPHA = 0.05
LEAST_SEEDS = 3
BOTH, DUNNETT_ALONE = "*", "†"
Values = Mapping[str, Mapping[int, float | None]]
"""Of one metric: row -> seed -> value. None means that it was not finite."""


LARGEST = 1e150
"""A value beyond it counts as not finite: its square is."""


@dataclass(frozen=True)
class RowTest:
    """One row's difference from the reference in one metric, as row minus reference."""

    difference: float
    low: float  # the ends of the simultaneous 95 % interval (Dunnett)
    high: float
    p: float  # Dunnett: adjusted over the family
    p_welch: float  # Welch's t-test, Holm-adjusted over the family

    @property
    def shown(self) -> bool:
        """Whether Dunnett's test shows a difference."""
        return self.p <= ALPHA

    @property
    def shown_by_both(self) -> bool:
        """Whether Welch's test, which assumes no common variance, shows it, too."""
        return self.shown and self.p_welch <= ALPHA

    @property
    def shown_by_welch_alone(self) -> bool:
        """Such a row has no mark: the error rate of a table is that of Dunnett's test."""
        return not self.shown and self.p_welch <= ALPHA

    @property
    def mark(self) -> str:
        """``*`` if both tests show it, ``†`` if Dunnett's alone, otherwise nothing."""
        return BOTH if self.shown_by_both else DUNNETT_ALONE if self.shown else ""


@dataclass(frozen=True)
class Spread:
    """The finite values of one row: their number, mean and standard deviation (n − 1; None with one value)."""

    seeds: int
    mean: float
    sd: float | None


@dataclass(frozen=True)
class Family:
    """The tests of one metric. Without ``tests`` nothing could be tested, and ``untested`` says why for every row."""

    reference: str
    tests: dict[str, RowTest]  # by row, without the reference
    untested: dict[str, str]  # the other rows, each with its reason
    seeds: dict[str, int]  # of the reference and of the tested rows
    sds: dict[str, float]  # of the same rows
    reference_mean: float | None = None
    pooled_sd: float | None = None
    df: int = 0
    critical: float | None = None  # Dunnett's: the |t| from which a difference is shown

    @property
    def rows(self) -> int:
        """How many rows are tested."""
        return len(self.tests)

    @property
    def loadings(self) -> Loadings:
        return loadings(self.seeds[self.reference], [self.seeds[row] for row in self.tests])

    @property
    def relative_sds(self) -> dict[str, float]:
        """Each row's sd over the pooled one; 1 everywhere is what Dunnett's test assumes."""
        return {row: sd / self.pooled_sd for row, sd in self.sds.items()} if self.pooled_sd else {}

    @property
    def largest_sd(self) -> tuple[str, float] | None:
        """The row whose sd is largest, and that sd over the pooled one."""
        return max(self.relative_sds.items(), key=lambda found: found[1], default=None)

    @property
    def reference_sd(self) -> float | None:
        """The reference's sd over the pooled one. A large one is serious: every difference contains the reference."""
        return self.relative_sds.get(self.reference)

    @staticmethod
    def of(content: Mapping[str, Any]) -> "Family":
        """From JSON of `dataclasses.asdict`."""
        return Family(**{**content, "tests": {row: RowTest(**test) for row, test in content["tests"].items()}})


def spread(values: Mapping[int, float | None]) -> Spread | None:
    """Over the finite values; None without one."""
    known = _finite(values)
    return Spread(len(known), _mean(known), math.sqrt(_variance(known)) if len(known) > 1 else None) if known else None


def family(values: Values, reference: str) -> Family | None:
    """Every row against the reference. None if the reference is no row."""
    if reference not in values:
        return None
    reasons = {row: reason for row, seeds in values.items() if (reason := why_untested(seeds))}
    groups = {row: _finite(seeds) for row, seeds in values.items() if row not in reasons}
    if reference in reasons:
        why = f"{reference}: {reasons.pop(reference)}"
        return _untested(values, reference, dict.fromkeys(groups, why) | reasons)
    if len(groups) < 2:
        return _untested(values, reference, reasons)
    df = sum(map(len, groups.values())) - len(groups)
    pooled_sd = math.sqrt(sum((len(each) - 1) * _variance(each) for each in groups.values()) / df)
    if not pooled_sd > 1e-12 * max(abs(value) for each in groups.values() for value in each):
        return _untested(values, reference, dict.fromkeys(groups, "no variance over seeds") | reasons)
    return _tested(groups, reference, reasons, pooled_sd, df)


def why_untested(values: Mapping[int, float | None]) -> str:
    """The reason why a row with these values cannot be tested; empty if it can."""
    lost = len(values) - len(_finite(values))
    if lost:
        return f"{lost} of {len(values)} seeds without a finite score" if len(values) > 1 else "no finite score"
    if len(values) < LEAST_SEEDS:
        return {0: "no seed", 1: "1 seed"}.get(len(values), f"{len(values)} seeds")
    return ""


def _untested(values: Values, reference: str, reasons: Mapping[str, str]) -> Family:
    return Family(reference, {}, {row: reasons[row] for row in values if row in reasons and row != reference}, {}, {})


def _tested(
    groups: Mapping[str, list[float]], reference: str, reasons: dict[str, str], pooled_sd: float, df: int
) -> Family:
    base = groups[reference]
    others = {row: values for row, values in groups.items() if row != reference}
    shape = loadings(len(base), map(len, others.values()))
    critical = critical_t(shape, df, ALPHA)
    welch = holm({row: welch_p(values, base) for row, values in others.items()})
    tests = {}
    for row, values in others.items():
        difference = _mean(values) - _mean(base)
        error = pooled_sd * math.sqrt(1 / len(values) + 1 / len(base))
        p = largest_t_tail(difference / error, shape, df)
        ends = difference - critical * error, difference + critical * error
        tests[row] = RowTest(difference, *ends, p, welch[row])
    sds = {row: math.sqrt(_variance(values)) for row, values in groups.items()}
    seeds = {row: len(values) for row, values in groups.items()}
    return Family(reference, tests, reasons, seeds, sds, _mean(base), pooled_sd, df, critical)


def welch_p(values: list[float], base: list[float]) -> float:
    """Welch's t-test, two-sided, unadjusted. Without any spread it is 1 for equal means and 0 for others."""
    parts = [_variance(each) / len(each) for each in (values, base)]
    difference, error = _mean(values) - _mean(base), math.sqrt(sum(parts))
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    each_df = [part**2 / (len(of) - 1) for part, of in zip(parts, (values, base), strict=True)]
    return t_tail(difference / error, error**4 / sum(each_df))


def _finite(values: Mapping[int, float | None]) -> list[float]:
    """In the order of their seeds, so that the order of trials changes no digit."""
    known = [(seed, value) for seed, value in values.items() if value is not None and abs(value) < LARGEST]
    return [float(value) for _, value in sorted(known)]


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _variance(values: list[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def through_exp(test: RowTest, reference: float) -> RowTest:
    """A test on a logarithm as one on its exponential, such as perplexity: e^reference · (e^difference − 1).

    Args: the test of ΔNLL, and the reference's mean NLL. The interval's ends change likewise, p does not.
    """
    scale = _exp(reference)
    difference, low, high = (scale * (_exp(end) - 1) for end in (test.difference, test.low, test.high))
    return replace(test, difference=difference, low=low, high=high)


def exponential(of_logarithm: Family) -> dict[str, RowTest]:
    """The tests of a metric that is the exponential of the tested one."""
    mean = of_logarithm.reference_mean
    return {} if mean is None else {row: through_exp(test, mean) for row, test in of_logarithm.tests.items()}


def exponential_spread(logarithms: Mapping[int, float | None]) -> Spread | None:
    """The exponential of the mean logarithm, with the sd of the seeds' own exponentials."""
    mean = spread(logarithms)
    each = spread({seed: None if value is None else _exp(value) for seed, value in logarithms.items()})
    return replace(each, mean=_exp(mean.mean)) if mean and each else None


def _exp(value: float) -> float:
    """Infinite where Python would raise OverflowError."""
    return math.exp(value) if value < 700 else math.inf
