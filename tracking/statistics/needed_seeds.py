"""How many seeds would mark a difference, from the spread over seeds seen so far: for a plan, before its table."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tracking.card import Metric
from tracking.statistics.rows import BASE, TableRow, table
from tracking.study import Study

DIFFERENCES = 3
OVER = "more than 1000"
ROUND = (1, 2, 5)


def seeds_needed_lines(study: Study) -> list[str]:
    """A heading, and a line for each metric of the table; empty while no row has two finished seeds.

    Whole families of tests are meant: every row of the study against base. Loads NumPy and SciPy if needed.
    """
    rows = table(study)
    if all(row.seeds < 2 for row in rows):
        return []
    base = sum(trial.row == BASE for trial in study.trials)
    spreads = {metric: _spread(metric, rows) for metric in study.task.tabled}
    lines = [_line(metric, spread, base) for metric, spread in spreads.items() if spread]
    others = max(len(rows) - 1, 1)
    tests = f"{others} rows are" if others > 1 else "one row is"
    heading = f"Seeds per row, with at least {base} of base, that would mark a difference with probability 0.8, "
    return [f"{heading}if {tests} compared with base:", *lines] if lines else []


@dataclass(frozen=True)
class Spread:
    """The variances over seeds that the rows are likely to have, base's first."""

    variances: Sequence[float]
    df: int


def _spread(metric: Metric, rows: Sequence[TableRow]) -> Spread | None:
    """As the table's test takes them. A row without two finished seeds has what the others share."""
    import numpy as np

    from tracking.statistics.moderated_tests import moderated

    ordered = sorted(rows, key=lambda row: row.row != BASE)
    values = {row.row: found for row in ordered if (found := _values(metric, row))}
    variances, seeds = np.array([np.var(of, ddof=1) for of in values.values()]), [*map(len, values.values())]
    if not variances.any():
        return None
    likely, common = variances, float(variances[0])
    if len(values) > 1:
        together = moderated(variances, np.array(seeds))
        likely, common = together.likely, float(together.prior.variance)
    known = dict(zip(values, map(float, likely), strict=True))
    return Spread([known.get(row.row, common) for row in ordered], sum(seeds) - len(seeds))


def _values(metric: Metric, row: TableRow) -> list[float]:
    """On the tested scale; none of a row that would have no test."""
    known = metric.tested_values(row.seed_values[metric.name]).values()
    finite = [value for value in known if value is not None and math.isfinite(value)]
    unlike = row.diverged or metric.decided_by((*row.mixed_decode, *row.other_decode))
    return [] if unlike or len(finite) < max(2, len(known)) else finite


def _line(metric: Metric, spread: Spread, base: int) -> str:
    sds = [math.sqrt(variance) for variance in spread.variances]
    in_units = [math.expm1(sd) if metric.exp_of else sd for sd in (min(sds), median(sds), max(sds))]
    needed = _needed(metric, spread, base, in_units[1])
    each = ", ".join(f"{_amount(metric, by)} with {seeds or OVER}" for by, seeds in needed)
    ends = " to ".join(dict.fromkeys(_amount(metric, sd) for sd in (in_units[0], in_units[2])))
    return f"{metric.label}: {each} (sd over seeds {ends}, {spread.df} degrees of freedom)."


def _needed(metric: Metric, spread: Spread, base: int, sd: float) -> Iterator[tuple[float, int | None]]:
    """Differences with the seeds that mark them, up to the first one that the least number of seeds marks."""
    from tracking.statistics.power import LEAST_SEEDS, Power

    power = Power(spread.variances)
    for difference in round_differences(sd):
        seeds = power.seeds_needed([base], math.log1p(difference) if metric.exp_of else difference)
        yield difference, seeds
        if seeds == LEAST_SEEDS:
            return


def round_differences(sd: float) -> list[float]:
    """The next three of …, 1, 2, 5, 10, … from one standard deviation on."""
    place = math.floor(math.log10(sd))
    steps = [float(f"{digit}e{power}") for power in (place, place + 1, place + 2) for digit in ROUND]
    return [step for step in steps if step >= sd][:DIFFERENCES]


def _amount(metric: Metric, difference: float) -> str:
    """Relative for an exponential: its spread is that of its logarithm."""
    return f"{100 * difference:.2g} %" if metric.exp_of else f"{difference:.2g}"
