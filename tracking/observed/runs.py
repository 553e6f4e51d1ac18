"""The runs of a source by the roles of its columns; which of them count, and why others don't."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tracking.observed.columns import (
    COSTS,
    FINISHED,
    RUNNING,
    is_called,
    plain_name,
    score_stem,
)
from tracking.observed.roles import Roles
from tracking.observed.source_table import (
    Curves,
    SourceTable,
    Value,
    finite_or_text,
    is_number,
    seed_number,
    value_text,
    whole_number,
)

MS = 1000.0
A_TIME_IN_MS = 1e11
"""A larger number of seconds would be in the year 5138."""


def number_name(place: int) -> str:
    """Of a run without a name."""
    return f"run {place + 1}"


@dataclass(frozen=True)
class ObservedRun:
    """One run. ``settings`` have every column of that role; ``code``, ``packages`` and ``data`` say
    what it was made with. Times in Unix seconds; ``seconds`` is how long it took."""

    name: str
    place: int  # in the source, from 0
    seed: int | None
    settings: Mapping[str, Value]
    scores: Mapping[str, float | None]  # by column; None: not finite. Without a score: not there
    state: str = ""
    row: str = ""  # as the source names it
    words: Mapping[str, str] = field(default_factory=dict)  # "change" and "group", if it has them
    code: Mapping[str, Value] = field(default_factory=dict)
    packages: Mapping[str, Value] = field(default_factory=dict)
    data: Mapping[str, Value] = field(default_factory=dict)
    device: str = ""
    steps: Mapping[str, Value] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    began: float | None = None
    ended: float | None = None
    measured: Mapping[str, Value] = field(default_factory=dict)  # what the table does not show
    curves: Curves = field(default_factory=dict)

    @property
    def is_unnamed(self) -> bool:
        """Whether its source has no name for it."""
        return self.name == number_name(self.place)

    @property
    def step(self) -> int:
        """The step at which it ended; 0 if nothing tells."""
        numbers = [whole_number(value) for value in self.steps.values()]
        return next((number for number in numbers if number is not None), 0)


def names_of(runs: Sequence[ObservedRun]) -> tuple[str, ...]:
    return tuple(run.name for run in runs)


@dataclass(frozen=True)
class LeftOutRun:
    """A run that no table counts, and why: such as "failed" or "has no accuracy"."""

    run: ObservedRun
    why: str


def runs_of(table: SourceTable, roles: Roles) -> tuple[list[ObservedRun], list[LeftOutRun]]:
    """The runs that count, in the order of their start, or of the source; and those left out."""
    runs = []
    for place, line in enumerate(table.lines):
        # allelse keeps a run of the whole study in addition to those of its trials
        if line.get("tags.kind") != "study":
            runs.append(_run(table, roles, place))
    if all(run.began is not None for run in runs):
        runs.sort(key=lambda run: (run.began, run.place))
    counted = list[ObservedRun]()
    left_out = list[LeftOutRun]()
    for run in runs:
        reason = _why_left_out(run, roles)
        if reason:
            left_out.append(LeftOutRun(run, reason))
        else:
            counted.append(run)
    return counted, left_out


def _why_left_out(run: ObservedRun, roles: Roles) -> str:
    state = run.state.lower()
    if state in RUNNING:
        return "still running" if state == "running" else state
    if state and state not in FINISHED:
        return state
    missing = [metric.name for metric in roles.metrics if metric.column not in run.scores]
    if len(missing) == len(roles.metrics):
        return f"has no {' or '.join(missing)}"
    return ""


def _run(table: SourceTable, roles: Roles, place: int) -> ObservedRun:
    line = table.lines[place]
    row = "" if roles.row is None else value_text(line.get(roles.row))
    name_column = roles.first("name")
    name = "" if name_column is None else value_text(line.get(name_column))
    began = _time(line, roles.first("start"))
    ended = _time(line, roles.first("end"))
    curves = table.curves(place, _columns_of_scores(roles))
    steps = _values(line, roles.columns("steps")) or _last_step(roles, curves)
    return ObservedRun(
        name=name or number_name(place),
        place=place,
        seed=None if roles.seed is None else seed_number(line.get(roles.seed)),
        settings={column: finite_or_text(line.get(column)) for column in roles.columns("setting")},
        scores=_scores(line, [metric.column for metric in roles.metrics]),
        state=_first_text(line, roles.columns("state")),
        row=row,
        words=_words(line, roles.columns("words")),
        code=_values(line, roles.columns("code")),
        packages=_values(line, roles.columns("package")),
        data=_values(line, roles.columns("data")),
        device=_first_text(line, roles.columns("device")),
        steps=steps,
        costs=_costs(line, roles.columns("cost"), began, ended),
        began=began,
        ended=ended,
        measured=_values(line, roles.columns("measured")),
        curves=curves,
    )


def _columns_of_scores(roles: Roles) -> list[str]:
    """Columns of the metrics on whatever set, with the best or the last value or not."""
    stems = {score_stem(metric.column) for metric in roles.metrics}
    measured = roles.columns("metric", "measured")
    return [column for column in measured if score_stem(column) in stems]


def _last_step(roles: Roles, curves: Curves) -> dict[str, Value]:
    """Of the run's scores, where no column has it."""
    points = [curves[metric.column][-1] for metric in roles.metrics if metric.column in curves]
    return {"step": max(point.step for point in points)} if points else {}


def _values(line: Mapping[str, Value], columns: Sequence[str]) -> dict[str, Value]:
    """Those that are not empty, by the plain name of the column."""
    return {
        plain_name(column): finite_or_text(line.get(column))
        for column in columns
        if line.get(column) is not None
    }


def _first_text(line: Mapping[str, Value], columns: Sequence[str]) -> str:
    """Of the first of these cells that is not empty."""
    values = [line.get(column) for column in columns]
    return next((value_text(value) for value in values if value is not None), "")


def _words(line: Mapping[str, Value], columns: Sequence[str]) -> dict[str, str]:
    """The change and the group of the run's row, as tables of allelse have them."""
    return {
        column.rpartition(".")[2]: value_text(line.get(column))
        for column in columns
        if line.get(column) is not None
    }


def _scores(line: Mapping[str, Value], columns: Sequence[str]) -> dict[str, float | None]:
    scores: dict[str, float | None] = {}
    for column in columns:
        value = line.get(column)
        if is_number(value):
            scores[column] = float(value) if math.isfinite(value) else None
    return scores


def _costs(
    line: Mapping[str, Value], columns: Sequence[str], began: float | None, ended: float | None
) -> dict[str, float]:
    costs: dict[str, float] = {}
    for cost, names in COSTS.items():
        values = [line.get(column) for column in columns if is_called(column, names)]
        numbers = [value for value in values if isinstance(value, int | float)]
        numbers = [number for number in numbers if math.isfinite(number)]
        if cost == "params":
            numbers = [number for number in numbers if float(number).is_integer()]
        if numbers:
            costs[cost] = numbers[0]
    if "seconds" not in costs and began is not None and ended is not None:
        costs["seconds"] = max(0.0, ended - began)
    return costs


def _time(line: Mapping[str, Value], column: str | None) -> float | None:
    """In Unix seconds, of a number of seconds or milliseconds, or of a date."""
    value = None if column is None else line.get(column)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        if not math.isfinite(value):
            return None
        return value / MS if value > A_TIME_IN_MS else float(value)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
