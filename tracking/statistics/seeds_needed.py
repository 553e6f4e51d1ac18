"""How many seeds would show a difference, from the spread over seeds seen so far."""

import math
from collections.abc import Iterator

from tracking.card import Metric
from tracking.statistics.seed_values import finished_results, pooled_spread, seed_values
from tracking.study import Study

DIFFERENCES = 3
OVER = "more than 1000"
ROUND = (1, 2, 5)


def seeds_needed_lines(study: Study) -> list[str]:
    """A heading, and a line for each metric of the table; empty while no row has two finished seeds.

    Whole families of tests are meant: every row of the study against base. Loads NumPy and scipy.special if needed.
    """
    results = finished_results(study)
    if all(len(seeds) < 2 for seeds in results.values()):
        return []
    rows = max(len({trial.row for trial in study.trials}) - 1, 1)
    lines = [line for metric in study.task.tabled for line in _lines(study, results, metric, rows)]
    tests = f"{rows} rows are" if rows > 1 else "one row is"
    heading = f"Seeds per row that would show a difference with probability 0.8, if {tests} tested against base:"
    return [heading, *lines] if lines else []


def _lines(study: Study, results: dict[str, dict[int, dict[str, object]]], metric: Metric, rows: int) -> Iterator[str]:
    tested = study.task.tested(metric)
    spread = pooled_spread(seed_values(results, tested))
    if spread is None or spread.sd <= 0:
        return
    each = [f"{_amount(metric, by)} with {seeds or OVER}" for by, seeds in _needed(metric, spread.sd, rows)]
    sd = _amount(metric, math.expm1(spread.sd) if metric.exp_of else spread.sd)
    yield f"{metric.label}: {', '.join(each)} (sd over seeds {sd}, {spread.df} degrees of freedom)."


def _needed(metric: Metric, sd: float, rows: int) -> Iterator[tuple[float, int | None]]:
    """Differences with the seeds that show them, up to the first one that the least number of seeds shows."""
    from tracking.statistics.power import seeds_for
    from tracking.statistics.seed_tests import LEAST_SEEDS

    for difference in round_differences(math.expm1(sd) if metric.exp_of else sd):
        seeds = seeds_for(math.log1p(difference) if metric.exp_of else difference, sd, rows)
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
