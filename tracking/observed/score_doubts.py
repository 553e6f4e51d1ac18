"""The doubt about scores: a metric that is its best value over time in some runs, and its last
value in others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tracking.observed.columns import (
    BEST_WORDS,
    LAST_WORDS,
    LENGTHS,
    last_part,
    score_stem,
    words_of,
)
from tracking.observed.doubt import Doubt, named
from tracking.observed.metric_columns import MetricColumn
from tracking.observed.roles import Roles
from tracking.observed.rows import ObservedRow, ObservedRows
from tracking.observed.runs import LeftOutRun, ObservedRun
from tracking.observed.source_table import Value, is_number

When = Literal["best", "last", "perhaps best", ""]
"""What a score is: "perhaps best" where the last value may be the best one; "" if nothing tells."""
FEWEST_RUNS = 3
"""Of a row whose last values can't all be the best ones by chance."""


def best_and_last(
    rows: ObservedRows, roles: Roles, left_out: Sequence[LeftOutRun]
) -> Iterator[Doubt]:
    for metric in roles.metrics:
        runs = [run for row in rows.rows for run in row.runs]
        moments = {run.place: _moment(run, metric) for run in runs}
        best = [run for run in runs if moments[run.place] == "best"]
        last = [run for run in runs if moments[run.place] == "last"]
        if not best:
            best = _rows_of_best(rows.rows, moments)
        if best and last:
            yield _doubt(rows, metric, best, last)
        yield from _only_best(metric, left_out)


def _doubt(
    rows: ObservedRows,
    metric: MetricColumn,
    best: Sequence[ObservedRun],
    last: Sequence[ObservedRun],
) -> Doubt:
    fewer, words, usual = (best, "best", "last")
    if len(last) < len(best):
        fewer, words, usual = (last, "last", "best")
    names = tuple(run.name for run in fewer)
    text = (
        f"{metric.name} is the {words} value over time in {named(names)}, "
        f"but the {usual} one in other runs."
    )
    with_them = [row.name for row in rows.rows if any(run in fewer for run in row.runs)]
    return Doubt("best-and-last", text, names, tuple(with_them))


def _rows_of_best(rows: Sequence[ObservedRow], moments: Mapping[int, When]) -> list[ObservedRun]:
    """Runs of rows in which every score is the best one, where no score of another row is."""
    of_rows = {row.name: [moments[run.place] for run in row.runs] for row in rows}
    mixed = [name for name, of in of_rows.items() if 0 < of.count("perhaps best") < len(of)]
    chosen = [
        row
        for row in rows
        if len(row.runs) >= FEWEST_RUNS and {*of_rows[row.name]} == {"perhaps best"}
    ]
    if mixed or len(chosen) == len(rows):
        return []
    return [run for row in chosen for run in row.runs]


def _moment(run: ObservedRun, metric: MetricColumn) -> When:
    """From the run's own curve of the metric, from another curve of it, or from columns with its
    best and its last value."""
    score = run.scores.get(metric.column)
    if score is None:
        return ""
    curve = [point.value for point in run.curves.get(metric.column, ())]
    if len(curve) > 2:
        *before, newest = curve
        return _of(newest, _best(metric, before), before[-1])
    for column, points in run.curves.items():
        values = [point.value for point in points]
        is_another = column != metric.column and score_stem(column) == score_stem(metric.column)
        if is_another and len(values) > 1:
            moment = _of(score, _best(metric, values), values[-1])
            if moment:
                return moment
    return _by_columns(run, metric, score)


def _of(score: float, best: float, last: float) -> When:
    if score == best and score != last:
        return "best"
    return "" if score == best else "last"


def _best(metric: MetricColumn, values: Sequence[float]) -> float:
    return max(values) if metric.better == "up" else min(values)


def _by_columns(run: ObservedRun, metric: MetricColumn, score: float) -> When:
    best = _companion(run.measured, metric, BEST_WORDS)
    last = _companion(run.measured, metric, LAST_WORDS)
    if last is not None and score != last:
        return "best"
    if best is None:
        return ""
    if score != best:
        return "last"
    if last is not None:
        return ""
    step = _best_step(run)
    return "best" if step is not None and 0 < step < run.step else "perhaps best"


def _companion(
    values: Mapping[str, Value], metric: MetricColumn, words: frozenset[str]
) -> float | None:
    """The value of a column that is called like the metric, and best or last."""
    for column, value in values.items():
        is_alike = score_stem(column) == score_stem(metric.column)
        if is_number(value) and is_alike and words & {*words_of(column)}:
            return float(value)
    return None


def _best_step(run: ObservedRun) -> float | None:
    """The step of the best score, if a column has it."""
    for column, value in (*run.measured.items(), *run.settings.items()):
        words = {*words_of(last_part(column))}
        if isinstance(value, int | float) and words & BEST_WORDS and words & LENGTHS:
            return float(value)
    return None


def _only_best(metric: MetricColumn, left_out: Sequence[LeftOutRun]) -> Iterator[Doubt]:
    """Runs that have only the best value, and no score."""
    runs = [
        run.run
        for run in left_out
        if run.why.startswith("has no ")
        and _companion(run.run.measured, metric, BEST_WORDS) is not None
    ]
    if runs:
        names = tuple(run.name for run in runs)
        text = f"{named(names)} have the best {metric.name} over time, but not the last one."
        yield Doubt("best-and-last", text, names, ())
