"""Rows of runs: settings that differ from base, or a column that names them."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

from tracking.observed.columns import last_part, plain_name
from tracking.observed.metric_columns import column_fault, matching_columns
from tracking.observed.roles import Asked, Roles
from tracking.observed.runs import ObservedRun
from tracking.observed.source_table import (
    ImportFault,
    ImportRefusedError,
    SourceTable,
    Value,
    cell_value,
    is_number,
    is_typed,
    nearest_name,
    refused,
    value_text,
)
from tracking.words import grouped, listed, shortened

BASE = "base"
BASE_NAMES = ("base", "baseline", "default", "control", "reference", "none", "vanilla")
LONGEST_NAME = 80
"""Characters of a row's name, which is part of a folder's."""
ROWS = "rows"
"""The group of all rows but base, if the source has no groups."""
MOST_SHOWN = 5
"""Values in the text of a refusal."""
Settings = Mapping[str, Value]


@dataclass(frozen=True)
class ObservedRow:
    """``runs``: one of each seed. ``repeated``: further runs of seeds that it has already.
    ``changed``: the settings that differ from base's, by column."""

    name: str
    change: str
    group: str
    settings: Settings  # of most of its runs
    changed: Settings
    runs: tuple[ObservedRun, ...]
    repeated: tuple[ObservedRun, ...] = ()

    @property
    def every_run(self) -> tuple[ObservedRun, ...]:
        return (*self.runs, *self.repeated)

    @cached_property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs if run.seed is not None]


@dataclass(frozen=True)
class ObservedRows:
    """``labels``: of every setting that varies, how people call it. ``guessed_base``: whether no
    person said which row is base. ``numbered``: runs without a seed, which got one here."""

    rows: tuple[ObservedRow, ...]  # base first
    labels: Mapping[str, str]
    guessed_base: bool
    follows_seed: tuple[str, ...] = ()
    numbered: tuple[ObservedRun, ...] = ()
    base_words: str = ""

    @property
    def base(self) -> ObservedRow:
        return self.rows[0]


@dataclass(frozen=True)
class _Group:
    """Runs that become one row."""

    name: str  # as the source has it; "" for inferred rows
    settings: Settings
    runs: list[ObservedRun]


def rows_of(
    table: SourceTable, roles: Roles, runs: Sequence[ObservedRun], asked: Asked
) -> ObservedRows:
    """Raises ImportRefusedError if no run counts, or if no run is base."""
    if not runs:
        fault = f"is {table.source}, in which no finished run has a score"
        raise refused("SOURCE", fault, "must have at least one such run")
    columns = _varying(roles.columns("setting"), runs)
    follows = _following_seed(columns, runs)
    columns = [column for column in columns if column not in follows]
    labels = _labels(columns)
    groups = _named_groups(runs, columns) if roles.row else _inferred_groups(runs, columns)
    base = _base_of(table, roles, groups, asked)
    ordered = [base, *(group for group in groups if group is not base)]
    if roles.row is None:
        ordered[1:] = sorted(ordered[1:], key=lambda group: _order(group, base, columns))
    elif all("order" in group.runs[0].words for group in ordered):
        ordered[1:] = sorted(ordered[1:], key=_recorded_order)
    rows = [_row(group, base, labels) for group in ordered]
    rows = [replace(row, name=name) for row, name in zip(rows, _names(rows), strict=True)]
    numbered = tuple(run for run in runs if run.seed is None)
    return ObservedRows(
        tuple(_with_seeds(row) for row in rows),
        labels,
        guessed_base=not asked.base,
        follows_seed=follows,
        numbered=numbered,
        base_words=base.name,
    )


def _varying(columns: Sequence[str], runs: Sequence[ObservedRun]) -> list[str]:
    return [column for column in columns if len({run.settings[column] for run in runs}) > 1]


def _following_seed(columns: Sequence[str], runs: Sequence[ObservedRun]) -> tuple[str, ...]:
    """Settings that the seed decides, such as a folder or a second seed: each seed has one value
    of its own in all its runs."""
    seeds = {run.seed for run in runs}
    if None in seeds or len(seeds) < 2 or len(seeds) == len(runs):
        return ()
    following = []
    for column in columns:
        pairs = {(run.seed, run.settings[column]) for run in runs}
        values = {value for _, value in pairs}
        if len(pairs) == len(seeds) == len(values):
            following.append(column)
    return tuple(following)


def _labels(columns: Sequence[str]) -> dict[str, str]:
    """The last part of each name, unless two columns share it."""
    parts = Counter(last_part(column) for column in columns)
    return {
        column: last_part(column) if parts[last_part(column)] == 1 else plain_name(column)
        for column in columns
    }


def _inferred_groups(runs: Sequence[ObservedRun], columns: Sequence[str]) -> list[_Group]:
    """Runs of equal settings."""
    runs_of_values = grouped((_values(run, columns), run) for run in runs)
    return [
        _Group("", dict(zip(columns, values, strict=True)), group_runs)
        for values, group_runs in runs_of_values.items()
    ]


def _values(run: ObservedRun, columns: Sequence[str]) -> tuple[Value, ...]:
    return tuple(run.settings[column] for column in columns)


def _named_groups(runs: Sequence[ObservedRun], columns: Sequence[str]) -> list[_Group]:
    """Runs whose row has one name, with the settings of most of them."""
    runs_of_row = grouped((run.row, run) for run in runs)
    return [
        _Group(name, usual_settings(row_runs, columns), row_runs)
        for name, row_runs in runs_of_row.items()
    ]


def usual_settings(runs: Sequence[ObservedRun], columns: Sequence[str]) -> dict[str, Value]:
    """The most frequent value of each; of several, the first one."""
    return {
        column: Counter(run.settings[column] for run in runs).most_common(1)[0][0]
        for column in columns
    }


def _base_of(table: SourceTable, roles: Roles, groups: Sequence[_Group], asked: Asked) -> _Group:
    if not asked.base:
        return _guessed_base(groups)
    conditions = _conditions(table, asked.base)
    matching = {
        id(group): [run for run in group.runs if _meets(table, run, conditions)] for group in groups
    }
    candidates = [group for group in groups if matching[id(group)]]
    if not candidates:
        typed = ", ".join(f"{key}={value}" if key else value for key, value in asked.base.items())
        raise ImportRefusedError([_no_base(table, roles, groups, typed, asked)])
    distance = _distance_to(candidates)
    base = max(candidates, key=lambda group: (-distance(group), len(matching[id(group)])))
    names_rows = _columns_of_rows(table, roles, base, matching[id(base)], conditions)
    if names_rows:
        raise ImportRefusedError([_mixed_base(table, base, names_rows[0], conditions)])
    return base


def _columns_of_rows(
    table: SourceTable,
    roles: Roles,
    base: _Group,
    matching: Sequence[ObservedRun],
    conditions: Mapping[str, str],
) -> list[str]:
    """Columns of the conditions that are no settings, of which the group of base has several
    values, unless these name its single seeds."""
    are_settings = {*roles.columns("setting", "row"), ""}
    if len(matching) == len(base.runs):
        return []
    columns = list[str]()
    for column in conditions:
        values = [table.lines[run.place].get(column) for run in base.runs]
        seeds = {run.seed for run in base.runs}
        are_names = len({*values}) == len(values) == len(seeds)
        if column not in are_settings and len({*values}) > 1 and not are_names:
            columns.append(column)
    return columns


def _mixed_base(
    table: SourceTable, base: _Group, column: str, conditions: Mapping[str, str]
) -> ImportFault:
    values = [table.lines[run.place].get(column) for run in base.runs]
    typed = conditions[column]
    texts = dict.fromkeys(value_text(value) for value in values if not is_typed(value, typed))
    name = plain_name(column)
    others = listed([f"{name}={text}" for text in texts][:MOST_SHOWN])
    fault = f"is {name}={typed}, but its group also has runs with {others}"
    return ImportFault("--base", fault, f"use --row {name}")


def _conditions(table: SourceTable, typed: Mapping[str, str]) -> dict[str, str]:
    """By column. Raises ImportRefusedError for a column that does not exist."""
    conditions = dict[str, str]()
    faults = list[ImportFault]()
    for key, value in typed.items():
        columns = [""] if key == "" else matching_columns(table, key)
        if len(columns) == 1:
            conditions[columns[0]] = value
        else:
            faults.append(column_fault(table, "--base", key, columns))
    if faults:
        raise ImportRefusedError(faults)
    return conditions


def _meets(table: SourceTable, run: ObservedRun, conditions: Mapping[str, str]) -> bool:
    """Whether the run has all these values. A value without a column names a row or a run."""
    line = table.lines[run.place]
    for column, typed in conditions.items():
        names = (run.row, run.name)
        named = not column and (typed in names or value_text(cell_value(typed)) == run.row)
        if not (named or (column and is_typed(line.get(column), typed))):
            return False
    return True


def _no_base(
    table: SourceTable, roles: Roles, groups: Sequence[_Group], typed: str, asked: Asked
) -> ImportFault:
    key, value = next(iter(asked.base.items()))
    columns = matching_columns(table, key) if key else [roles.row or roles.first("name") or ""]
    values = [value_text(cell) for cell in table.values(columns[0])] if columns else []
    values = list(dict.fromkeys(values))
    near = nearest_name(value, values)
    fault = f"is {typed}, but no finished run has it"
    allowed = f"values there: {', '.join(values[:20])}" if values else "must be COLUMN=VALUE"
    return ImportFault("--base", fault, allowed, f"{key}={near}" if near and key else near)


def _guessed_base(groups: Sequence[_Group]) -> _Group:
    """A row that is called so, or has a setting that is; of several, or without one, the row from
    which all others differ least."""
    named = [group for group in groups if group.name.lower() in BASE_NAMES]
    texts = [group for group in groups if _has_base_name(group)]
    distance = _distance_to(groups)
    return max(
        named or texts or groups,
        key=lambda group: (-distance(group), _unset(group, groups), len(group.runs)),
    )


def _has_base_name(group: _Group) -> bool:
    values = group.settings.values()
    return any(isinstance(value, str) and value.lower() in BASE_NAMES for value in values)


def _unset(group: _Group, groups: Sequence[_Group]) -> int:
    """How many settings are not set, or none, where other rows have a text."""
    unset = [
        column
        for column, value in group.settings.items()
        if value is None and any(isinstance(row.settings[column], str) for row in groups)
    ]
    return len(unset) + (group.name == value_text(None))


def _distance_to(groups: Sequence[_Group]) -> Callable[[_Group], int]:
    """In how many settings all these groups together differ from one."""
    columns = groups[0].settings
    counts = {column: Counter(group.settings[column] for group in groups) for column in columns}

    def distance(group: _Group) -> int:
        return sum(len(groups) - counts[column][group.settings[column]] for column in columns)

    return distance


def _order(group: _Group, base: _Group, columns: Sequence[str]) -> tuple[object, ...]:
    """Rows that change one setting stand together, by its value; those that change several last."""
    changed = [column for column in columns if group.settings[column] != base.settings[column]]
    places = [columns.index(column) for column in changed]
    values = [_value_order(group.settings[column]) for column in changed]
    return len(changed) > 1, places, values


def _recorded_order(group: _Group) -> tuple[bool, float, str]:
    """The place of the row's first run in the table of the study that ran it."""
    return _value_order(cell_value(group.runs[0].words["order"]))


def _value_order(value: Value) -> tuple[bool, float, str]:
    """Numbers first, by size."""
    if is_number(value):
        return False, float(value), ""
    return True, 0.0, value_text(value)


def _row(group: _Group, base: _Group, labels: Mapping[str, str]) -> ObservedRow:
    changed = {
        column: value for column, value in group.settings.items() if value != base.settings[column]
    }
    words = group.runs[0].words
    inferred = change_words(changed, labels)
    change = words.get("change", group.name) if group.name else inferred
    section = words.get("group", ROWS) if group.name else ROWS
    if group is base:
        section = BASE
        change = words.get("change", BASE) if group.name else BASE
    runs, repeated = _without_repeated(group.runs)
    name = BASE if group is base else group.name or inferred
    return ObservedRow(name, change, section, group.settings, changed, runs, repeated)


def _without_repeated(
    runs: Sequence[ObservedRun],
) -> tuple[tuple[ObservedRun, ...], tuple[ObservedRun, ...]]:
    """The first run of each seed, with all that have none; and further runs of these seeds."""
    seeds = set[int]()
    first = list[ObservedRun]()
    repeated = list[ObservedRun]()
    for run in runs:
        if run.seed in seeds:
            repeated.append(run)
        else:
            first.append(run)
        if run.seed is not None:
            seeds.add(run.seed)
    return tuple(first), tuple(repeated)


def change_words(changed: Settings, labels: Mapping[str, str]) -> str:
    """Such as "d_model 256, h 4"."""
    return ", ".join(
        f"{labels[column]} {shortened(value_text(value))}" for column, value in changed.items()
    )


def _names(rows: Sequence[ObservedRow]) -> list[str]:
    """For folders and commands: each once, and only base's is base."""
    names = list[str]()
    taken = set[str]()
    for row in rows:
        name = _plain(row.name)
        if name.lower() in taken:
            name = f"{name}-{_digest(row.name)}"
        names.append(name)
        taken.add(name.lower())
    return names


def _plain(name: str) -> str:
    """Only letters, digits and _ . - +, such as d_model_256_h_4."""
    plain = re.sub(r"[^\w.+-]+", "_", name).strip("_.-") or "row"
    return plain if len(plain) <= LONGEST_NAME else f"{plain[:60]}-{_digest(name)}"


def _digest(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:8]


def _with_seeds(row: ObservedRow) -> ObservedRow:
    """Runs without a seed get the first numbers that no other run of the row has."""
    taken = {run.seed for run in row.runs}
    free = (number for number in itertools.count(1) if number not in taken)
    runs = [run if run.seed is not None else replace(run, seed=next(free)) for run in row.runs]
    return replace(row, runs=tuple(sorted(runs, key=lambda run: run.seed or 0)))
