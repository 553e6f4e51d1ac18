"""From a source to everything that was understood of it: ``csv`` or ``mlflow:URI``, then columns,
runs, rows and doubts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from tracking.files import TABLE_ENDINGS
from tracking.observed.columns import (
    TIMES,
    cells,
    is_called,
    last_part,
)
from tracking.observed.csv_file import read_csv
from tracking.observed.doubt import TITLES, Doubt, named
from tracking.observed.metric_columns import matching_columns
from tracking.observed.mlflow_store import MLFLOW, read_mlflow
from tracking.observed.roles import Asked, Roles, roles_of
from tracking.observed.row_doubts import (
    hidden_differences,
    labeled_rows,
    unequal_steps,
    unlike_origins,
    unlike_settings,
)
from tracking.observed.rows import ObservedRows, rows_of
from tracking.observed.runs import LeftOutRun, ObservedRun, runs_of
from tracking.observed.score_doubts import best_and_last
from tracking.observed.seed_doubts import (
    chosen_seeds,
    left_out_runs,
    missing_seeds,
    repeated_runs,
    runs_without_a_score,
)
from tracking.observed.source_table import SourceTable, Value, refused, whole_number
from tracking.words import count_of, grouped

NOT_OF_THE_RUN = ("steps", "metric", "measured", "cost", "start", "end")
"""Roles of columns that may differ between two lines of one run."""
RATES = ("lr", "learning_rate", "learningRate")
Curve = list[int]
"""The places of the lines of one run."""


@dataclass(frozen=True)
class CurveLines:
    """``table``: with one line per run, its last one. ``note`` says so; "" if nothing changed."""

    table: SourceTable
    note: str = ""


def last_lines(table: SourceTable, roles: Roles, asked: Asked) -> CurveLines:
    """The last line of each run, if lines of equal runs differ only in steps and in scores."""
    typed = {roles.row, roles.seed, *asked.base}
    counters = [column for column in roles.columns("steps") if column not in typed]
    if table.read_curve is not None or not counters:
        return CurveLines(table)
    ignored = {column for name in asked.ignored for column in matching_columns(table, name)}
    columns = [
        column
        for column, role in roles.of.items()
        if role not in NOT_OF_THE_RUN and not is_called(column, TIMES) and column not in ignored
    ]
    for of_run in _columns_of_run(columns, typed, has_names=roles.first("name") is not None):
        curves = _curves(table, of_run)
        # without the rates, lines may also be runs with different ones
        has_seed = roles.seed is not None and len(of_run) == len(columns)
        for counter in counters:
            if _are_curves(table, curves, counter, has_seed=has_seed):
                return _shortened(table, curves, counter)
    return CurveLines(table)


def _columns_of_run(
    columns: list[str], typed: Collection[str | None], *, has_names: bool
) -> Iterator[list[str]]:
    """The columns that tell one run from another. If runs have names, first without the learning
    rate, which a schedule changes from line to line."""
    if has_names:
        yield [column for column in columns if column in typed or last_part(column) not in RATES]
    yield columns


def _curves(table: SourceTable, columns: Sequence[str]) -> list[Curve]:
    """The lines that agree in all these columns."""
    lines = enumerate(table.lines)
    return list(grouped((cells(line, columns), place) for place, line in lines).values())


def _are_curves(
    table: SourceTable, curves: Sequence[Curve], counter: str, *, has_seed: bool
) -> bool:
    """Whether no run has a step twice, and one has several. Without a seed, lines may be runs that
    ended at different steps: curves then begin at the first step."""
    has_several = False
    for curve in curves:
        steps = _steps(table.lines, curve, counter)
        if len(steps) < len(curve) or (len(curve) > 1 and not has_seed and not _counted(steps)):
            return False
        has_several = has_several or len(curve) > 1
    return has_several


def _steps(lines: Sequence[Mapping[str, Value]], curve: Curve, counter: str) -> list[int]:
    """Each once, the first one first."""
    numbers = {whole_number(lines[place].get(counter)) for place in curve}
    return sorted(number for number in numbers if number is not None)


def _counted(steps: Sequence[int]) -> bool:
    distances = [later - earlier for earlier, later in pairwise(steps)]
    return steps[0] <= min(distances)


def _shortened(table: SourceTable, curves: Sequence[Curve], counter: str) -> CurveLines:
    def step(place: int) -> int:
        return whole_number(table.lines[place].get(counter)) or 0

    last = sorted(max(curve, key=step) for curve in curves)
    lines = len(table.lines)
    runs = count_of(len(last), "run")
    note = f"{lines} lines are curves of {runs}: the last line counts"
    shorter = replace(table, lines=tuple(table.lines[place] for place in last))
    return CurveLines(shorter, note)


@dataclass(frozen=True)
class Observation:
    """Everything that was understood of a source. ``notes``: sentences on how it was read."""

    table: SourceTable
    roles: Roles
    rows: ObservedRows
    left_out: tuple[LeftOutRun, ...]
    doubts: tuple[Doubt, ...]
    notes: tuple[str, ...] = ()


def read_source(source: str, experiment: str | None) -> SourceTable:
    """Raises ImportRefusedError, DamagedFileError."""
    if source.startswith(MLFLOW):
        return read_mlflow(source.removeprefix(MLFLOW), experiment)
    if experiment is not None:
        fault = "is for sources that start with mlflow:"
        raise refused("--experiment", fault, "leave it out")
    path = Path(source).expanduser()
    if path.suffix.lower() not in TABLE_ENDINGS:
        fault = f"is {source}"
        allowed = "must be a CSV file, or an MLflow store such as mlflow:sqlite:///mlflow.db"
        near = f"{MLFLOW}{source}" if "://" in source else None
        raise refused("SOURCE", fault, allowed, near)
    return read_csv(path)


def observed(table: SourceTable, asked: Asked) -> Observation:
    """Raises ImportRefusedError with what is wrong with columns, or with base."""
    curves = last_lines(table, roles_of(table, asked), asked)
    table = curves.table
    roles = roles_of(table, asked)
    runs, left_out = runs_of(table, roles)
    rows = rows_of(table, roles, runs, asked)
    doubts = doubts_of(table, rows, roles, left_out)
    notes = tuple(filter(None, [curves.note, *_diverged(roles, runs)]))
    return Observation(table, roles, rows, tuple(left_out), doubts, notes)


def _diverged(roles: Roles, runs: Sequence[ObservedRun]) -> Iterator[str]:
    """Of each metric, the runs whose score is not finite."""
    for metric in roles.metrics:
        names = [run.name for run in runs if run.scores.get(metric.column, 0.0) is None]
        if names:
            text = f"{count_of(len(names), 'run')} diverged, in no mean"
            yield f"{text}: {metric.name} is not finite in {named(names)}"


def doubts_of(
    table: SourceTable, rows: ObservedRows, roles: Roles, left_out: Sequence[LeftOutRun]
) -> tuple[Doubt, ...]:
    """Every doubt, by kind."""
    are_named = roles.row is not None
    doubts = [
        *hidden_differences(rows, are_named),
        *([] if are_named else labeled_rows(rows)),
        *unlike_settings(rows, are_named),
        *unlike_origins(rows),
        *unequal_steps(rows),
        *repeated_runs(table, rows, roles),
        *missing_seeds(table, rows, roles, left_out),
        *chosen_seeds(rows, left_out),
        *left_out_runs(left_out),
        *runs_without_a_score(rows, roles),
        *best_and_last(rows, roles, left_out),
    ]
    kinds = [*TITLES]
    return tuple(sorted(doubts, key=lambda doubt: kinds.index(doubt.kind)))
