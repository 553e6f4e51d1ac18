"""What a number of seeds can show: the probability of a mark, detectable differences, and the seeds that one needs.

The variances that seeds may show are drawn, and go through the test's own moderation. So its guard and its estimated
prior are accounted for: without them the power at three seeds would be told too high by seven points.
Shapes: S draws, R rows with the reference first, K = R − 1 compared rows.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy import special

from tracking.card import Metric
from tracking.statistics.rows import BASE, TableRow, table
from tracking.statistics.seed_tests import chance_of, critical, moderated
from tracking.study import Study

POWER = 0.8
LEAST_SEEDS = 3
CANDIDATES = (
    *range(3, 21),
    *(22, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 70, 80, 90, 100, 120, 150, 200, 300, 500, 1000),
)
"""Numbers of seeds that are told: no estimate of a variance is worth more digits."""
DRAWS = 400
SEED = 20_170_612
DIFFERENCES = 3
OVER = "more than 1000"
ROUND = (1, 2, 5)


class Power:
    """Of a family whose rows have these true variances over seeds, the reference first."""

    def __init__(self, variances: Sequence[float], families: int = 1) -> None:
        self.variances, self.families = np.asarray(variances, float), families

    def of(self, seeds: Sequence[int], differences: Any, row: int | None = None) -> Any:
        """[K]: the probability that each of [K] true differences is marked, if no other row differs; [R] seeds.

        Or that of this compared row alone."""
        return _marked(*self._reaches(seeds, row), differences)

    def detectable(self, seeds: Sequence[int]) -> Any:
        """[K]: the true difference of each row that is marked with probability 0.8."""
        error_K, reach_SK = self._reaches(seeds)
        low, high = 0 * error_K, reach_SK.max(axis=0) + 10 * error_K
        for _ in range(50):
            middle = (low + high) / 2
            enough = _marked(error_K, reach_SK, middle) >= POWER
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def seeds_needed(self, now: Sequence[int], difference: float, row: int | None = None) -> int | None:
        """Seeds that mark a true difference of this compared row with probability 0.8, if it and the reference have at
        least so many, and the other rows as many as ``now``. Without a row: that of the noisiest row, if all have so
        many, and the reference no fewer than now. None if 1000 are too few, as for a difference of 0."""
        if difference == 0:
            return None
        judged = int(np.argmax(self.variances[1:])) if row is None else row

        def is_enough(seeds: int) -> bool:
            each = [max(seeds, now[0]), *(now[1:] if row is not None else [seeds] * (len(self.variances) - 1))]
            if row is not None:
                each[row + 1] = max(seeds, each[row + 1])
            return bool(self.of(each, difference, judged) >= POWER)

        place = bisect_left(CANDIDATES, True, key=is_enough)
        return CANDIDATES[place] if place < len(CANDIDATES) else None

    def _reaches(self, seeds: Sequence[int], row: int | None = None) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked, [S, K]; without K of
        one compared row."""
        number, of = np.array(seeds, float), slice(None) if row is None else row
        drawn = np.random.default_rng(SEED).chisquare(number - 1, (DRAWS, len(number)))
        true = self.variances / number
        seen = chance_of(self.variances * drawn / (number - 1), number)
        reach = critical(seen.df[:, of], self.families * (len(number) - 1)) * seen.error[:, of]
        return np.sqrt(true[1:] + true[0])[of], reach


def _marked(error: Any, reach: Any, differences: Any) -> Any:
    """The probability that these true differences are marked, over the draws behind ``reach``."""
    parts = [special.ndtr((sign * np.abs(differences) - reach) / error) for sign in (1, -1)]
    return (parts[0] + parts[1]).mean(axis=0)


def seeds_needed_lines(study: Study) -> list[str]:
    """For a plan: a heading, and a line for each metric of the table; empty while no row has two finished seeds.

    Whole families of tests are meant: every row of the study against base.
    """
    rows = sorted(table(study), key=lambda row: row.row != BASE)
    base = sum(trial.row == BASE for trial in study.trials)
    lines = [*filter(None, (_line(metric, rows, base) for metric in study.task.tabled))]
    others = max(len(rows) - 1, 1)
    tests = f"{others} rows are" if others > 1 else "one row is"
    heading = f"Seeds per row, with at least {base} of base, that would mark a difference with probability 0.8, "
    return [f"{heading}if {tests} compared with base:", *lines] if lines else []


def _line(metric: Metric, rows: Sequence[TableRow], base: int) -> str:
    """Differences with the seeds that mark them, up to the first one that the least number of seeds marks."""
    values = {row.row: found for row in rows if (found := _values(metric, row))}
    variances, seeds = np.array([np.var(of, ddof=1) for of in values.values()]), np.array([*map(len, values.values())])
    if not variances.any():
        return ""
    likely = _likely(variances, seeds)
    known = dict(zip(values, likely, strict=False))
    each = [float(known.get(row.row, likely[-1])) for row in rows]
    power = Power(each if len(each) > 1 else each * 2)  # base alone: a row that varies like it
    sds = [math.sqrt(variance) for variance in power.variances]
    in_units = [math.expm1(sd) if metric.exp_of else sd for sd in (min(sds), median(sds), max(sds))]
    told: list[str] = []
    for difference in round_differences(in_units[1]):
        needed = power.seeds_needed([base], math.log1p(difference) if metric.exp_of else difference)
        told.append(f"{_amount(metric, difference)} with {needed or OVER}")
        if needed == LEAST_SEEDS:
            break
    ends = " to ".join(dict.fromkeys(_amount(metric, sd) for sd in (in_units[0], in_units[2])))
    df = int(seeds.sum()) - len(seeds)
    return f"{metric.label}: {', '.join(told)} (sd over seeds {ends}, {df} degrees of freedom)."


def _values(metric: Metric, row: TableRow) -> list[float]:
    """On the tested scale; none of a row that would have no test."""
    known = metric.tested_values(row.seed_values[metric.name]).values()
    finite = [value for value in known if value is not None and math.isfinite(value)]
    unlike = row.diverged or metric.decided_by((*row.mixed_decode, *row.other_decode))
    return [] if unlike or len(finite) < max(2, len(known)) else finite


def _likely(variances: Any, seeds: Any) -> list[float]:
    """As the table's test takes them; the last one is what they share, for rows without two finished seeds."""
    if len(variances) == 1:
        return [float(variances[0])] * 2
    together = moderated(variances, seeds)
    return [*map(float, together.likely), float(together.prior.variance)]


def round_differences(sd: float) -> list[float]:
    """The next three of …, 1, 2, 5, 10, … from one standard deviation on."""
    place = math.floor(math.log10(sd))
    steps = [float(f"{digit}e{power}") for power in (place, place + 1, place + 2) for digit in ROUND]
    return [step for step in steps if step >= sd][:DIFFERENCES]


def _amount(metric: Metric, difference: float) -> str:
    """Relative for an exponential: its spread is that of its logarithm."""
    return f"{100 * difference:.2g} %" if metric.exp_of else f"{difference:.2g}"
