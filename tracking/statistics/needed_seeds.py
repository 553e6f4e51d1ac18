"""How many seeds would mark a difference, from the spread over seeds seen so far: for a plan, before its table."""

import math
from collections.abc import Iterator, Mapping

from tracking.card import Metric
from tracking.statistics.seeds import counted_results, seed_values
from tracking.study import Study

DIFFERENCES = 3
OVER = "more than 1000"
ROUND = (1, 2, 5)


def seeds_needed_lines(study: Study) -> list[str]:
    """A heading, and a line for each metric of the table; empty while no row has two finished seeds.

    Whole families of tests are meant: every row of the study against base. Loads NumPy and SciPy if needed.
    """
    results = counted_results(study)
    if all(len(seeds) < 2 for seeds in results.values()):
        return []
    rows = max(len({trial.row for trial in study.trials}) - 1, 1)
    base = sum(trial.row == "base" for trial in study.trials)
    spreads = {metric: pooled(seed_values(results, study.task.tested(metric))) for metric in study.task.tabled}
    lines = [_line(metric, *spread, rows, base) for metric, spread in spreads.items() if spread and spread[0] > 0]
    tests = f"{rows} rows are" if rows > 1 else "one row is"
    heading = f"Seeds per row that would mark a difference with probability 0.8, if {tests} compared with base:"
    return [heading, *lines] if lines else []


def pooled(values: Mapping[str, Mapping[int, float | None]]) -> tuple[float, int] | None:
    """The standard deviation over seeds, pooled over rows with at least two finite values, and its degrees of freedom.

    Rows with another value are left out. None without such a row."""
    rows = [
        [value for value in each.values() if value is not None and math.isfinite(value)] for each in values.values()
    ]
    rows = [known for known, each in zip(rows, values.values(), strict=True) if len(known) == len(each) > 1]
    if not rows:
        return None
    df = sum(map(len, rows)) - len(rows)
    squares = math.fsum((value - math.fsum(row) / len(row)) ** 2 for row in rows for value in row)
    return math.sqrt(squares / df), df


def _line(metric: Metric, sd: float, df: int, rows: int, base: int) -> str:
    each = [f"{_amount(metric, by)} with {seeds or OVER}" for by, seeds in _needed(metric, sd, rows, base)]
    spread = _amount(metric, math.expm1(sd) if metric.exp_of else sd)
    return f"{metric.label}: {', '.join(each)} (sd over seeds {spread}, {df} degrees of freedom)."


def _needed(metric: Metric, sd: float, rows: int, base: int) -> Iterator[tuple[float, int | None]]:
    """Differences with the seeds that mark them, up to the first one that the least number of seeds marks."""
    from tracking.statistics.power import LEAST_SEEDS, Power

    power = Power([sd**2] * (rows + 1))
    for difference in round_differences(math.expm1(sd) if metric.exp_of else sd):
        seeds = power.seeds_needed(base, math.log1p(difference) if metric.exp_of else difference)
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
