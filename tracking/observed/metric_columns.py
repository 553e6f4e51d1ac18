"""The columns that a person names, and those with scores: typed, or guessed from their names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tracking.observed.columns import (
    BEST_WORDS,
    LAST_WORDS,
    TRAINING,
    direction,
    is_metric_name,
    is_set_by_hand,
    last_part,
    metric_name,
    plain_name,
    set_of,
    spoken_direction,
    words_of,
)
from tracking.observed.source_table import ImportFault, SourceTable, is_number, nearest_name
from tracking.words import shortened

UNNAMED_SET = "unnamed"
"""The set of a metric whose name tells none."""
MOST_GUESSED = 3
FINAL = "final/"
"""Before the name of a metric, as runs of allelse have their scores."""


@dataclass(frozen=True)
class MetricColumn:
    """A column that the table shows. ``better``: "up" or "down"."""

    column: str
    name: str
    better: Literal["up", "down"]
    set: str


def named_column(
    table: SourceTable, option: str, typed: str | None, faults: list[ImportFault]
) -> str | None:
    """The column that a person typed, with or without the folder before its name."""
    if typed is None:
        return None
    matching = matching_columns(table, typed)
    if len(matching) == 1:
        return matching[0]
    faults.append(column_fault(table, option, typed, matching))
    return None


def matching_columns(table: SourceTable, typed: str) -> list[str]:
    """Itself, or the columns that have it as their name without a folder."""
    if typed in table.columns:
        return [typed]
    alike: tuple[Callable[[str], bool], ...] = (
        lambda column: plain_name(column) == typed,
        lambda column: plain_name(column) == FINAL + typed,
        lambda column: last_part(column) == typed,
        lambda column: column.lower() == typed.lower(),
    )
    matches = ([*filter(is_alike, table.columns)] for is_alike in alike)
    return next(filter(None, matches), [])


def column_fault(
    table: SourceTable, option: str, typed: str, matching: Sequence[str] = ()
) -> ImportFault:
    if matching:
        fault = f"is {typed}, which may be {' or '.join(matching)}"
        return ImportFault(option, fault, "must be the whole name of a column")
    names = [plain_name(column) for column in table.columns]
    near = nearest_name(typed, names)
    fault = f'names "{typed}", which is not a column of {table.source}'
    shown = names if len(names) <= 30 else [*names[:30], f"{len(names) - 30} more"]
    return ImportFault(option, fault, f"columns are {', '.join(shown)}", near)


def typed_metrics(
    table: SourceTable, texts: Sequence[str], faults: list[ImportFault]
) -> list[MetricColumn]:
    metrics = list[MetricColumn]()
    for text in texts:
        name, typed_direction, typed_set = _parts(text, table)
        column = named_column(table, "--metric", name, faults)
        if column is None:
            continue
        better = typed_direction or direction(column)
        if better not in ("up", "down"):
            fault = f"is {text}, and its name doesn't say whether higher is better"
            allowed = "must be NAME:up or NAME:down, such as acc:up, or acc:up:test with its set"
            faults.append(ImportFault("--metric", fault, allowed, _with_direction(name)))
            continue
        if not any(is_number(value) for value in table.values(column)):
            fault = f"is {name}, which has no number in any run"
            faults.append(ImportFault("--metric", fault, "must be a column with scores"))
            continue
        metric = _metric(column, better, typed_set)
        earlier = next((typed for typed in metrics if typed.column == column), metric)
        if earlier != metric:
            fault = f"is {text}, and {name}:{earlier.better} too"
            faults.append(ImportFault("--metric", fault, "name a column once"))
        if metric not in metrics:
            metrics.append(metric)
    return _with_own_names(metrics)


def _with_direction(column: str) -> str | None:
    """Such as acc:up. None if the name says nothing: half of all guesses would turn every mark
    around."""
    better = spoken_direction(column)
    return None if better is None else f"{column}:{better}"


def _parts(text: str, table: SourceTable) -> tuple[str, str, str]:
    """Name, direction and set, as NAME:up:test. The name itself may hold a colon."""
    if matching_columns(table, text):
        return text, "", ""
    name, _, end = text.rpartition(":")
    if end in ("up", "down"):
        return name, end, ""
    before, _, middle = name.rpartition(":")
    if middle in ("up", "down"):
        return before, middle, end
    return text.partition(":")[0], "?", ""


def _with_own_names(metrics: Sequence[MetricColumn]) -> list[MetricColumn]:
    """Metrics of one name in different folders have these in their names."""
    names = [metric.name for metric in metrics]
    own = []
    for metric in metrics:
        is_unique = names.count(metric.name) == 1
        own.append(metric if is_unique else replace(metric, name=plain_name(metric.column)))
    return own


def guessed_metrics(table: SourceTable, roles: Mapping[str, str]) -> list[MetricColumn]:
    """Scores on a test set, without them those on another set that nothing was trained on."""
    columns = [
        column
        for column, role in roles.items()
        if role == "measured"
        and direction(column) is not None
        and not is_companion(column)
        and not is_set_by_hand(column)
        and any(map(is_number, table.values(column)))
    ]
    ranks = {column: _rank(column) for column in columns}
    best = min(ranks.values(), default=0)
    chosen = [column for column in columns if ranks[column] == best][:MOST_GUESSED]
    return _with_own_names([_metric(column, direction(column) or "up") for column in chosen])


def _metric(column: str, better: str, set_name: str = "") -> MetricColumn:
    set_name = set_name or set_of(column) or UNNAMED_SET
    return MetricColumn(column, metric_name(column), "up" if better == "up" else "down", set_name)


def is_companion(column: str) -> bool:
    """Whether the column is the best or the last value of another one."""
    words = {*words_of(column)}
    return not words.isdisjoint(BEST_WORDS) or not words.isdisjoint(LAST_WORDS - {"final"})


def _rank(column: str) -> int:
    """0 for the likeliest column of final scores."""
    name = set_of(column)
    if name == "test" or "final" in words_of(column):
        return 0
    if name is None:
        return 1
    return 3 if name in TRAINING else 2


def no_metric(table: SourceTable, roles: Mapping[str, str]) -> ImportFault:
    numbers = [
        plain_name(column)
        for column in table.columns
        if roles[column] in ("measured", "setting") and all(map(is_number, table.values(column)))
    ]
    fault = "is missing, and no column has the name of a score"
    for column in table.columns:
        texts = [value for value in table.values(column) if isinstance(value, str)]
        if texts and is_metric_name(column):
            name = plain_name(column)
            fault = f'is missing: {name} has text such as "{shortened(texts[0])}"'
            break
    examples = [*filter(None, map(_with_direction, numbers))]
    example = f"--metric {examples[-1]}" if examples else None
    allowed = "must be NAME:up or NAME:down, with :SET if you like"
    if numbers:
        allowed += f"; columns of numbers are {', '.join(numbers[:20])}"
    return ImportFault("--metric", fault, allowed, example)
