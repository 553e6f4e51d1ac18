"""Whether the values of a column were set before its runs or came out of them."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tracking.observed.source_table import SourceTable, Value, is_number, whole_number
from tracking.observed.words_of_columns import (
    BEST,
    LENGTHS,
    direction,
    is_metric_name,
    is_set_by_hand,
    set_of,
    words_of,
)

MANY_VALUES = 0.8
"""The share of runs with a value of their own, from which numbers were measured and not set."""
MOST_VALUES = 0.6
"""The same beside settings that give every row the same seeds."""
FEWEST_RUNS = 4
"""Fewer runs don't show whether each has a value of its own."""


def is_measured(table: SourceTable, column: str) -> bool:
    """Whether its numbers came out of a run: its name is a metric's, or each run has another."""
    numbers = _numbers(table, column)
    if is_metric_name(column) and (numbers or _has_numbers_in_texts(table, column)):
        return True
    if not numbers or len(numbers) < len(table.values(column)) or is_set_by_hand(column):
        return False
    words = {*words_of(column)}
    if BEST in words and words & LENGTHS:
        return True
    is_of_set = set_of(column) is not None and ("/" in column or "_" in column)
    if _has_fractions(numbers) and (is_of_set or direction(column) is not None):
        return not is_shared(table, column)
    return is_own(table, column) and _has_fractions(numbers)


def _has_numbers_in_texts(table: SourceTable, column: str) -> bool:
    """Whether values can be scores, such as 90.1 +- 0.2, and not the name of a loss, such as
    mse."""
    texts = [value for value in table.values(column) if isinstance(value, str)]
    return any(text.strip()[:1].isdigit() for text in texts)


def is_own(table: SourceTable, column: str, share: float = MANY_VALUES) -> bool:
    """Whether nearly every run has another number there."""
    numbers = _numbers(table, column)
    return len({*numbers}) >= share * len(table.lines) and len(numbers) >= FEWEST_RUNS


def is_shared(table: SourceTable, column: str) -> bool:
    """Whether several runs have each of its values."""
    numbers = Counter(table.values(column)).values()
    return sum(numbers) >= FEWEST_RUNS and min(numbers) > 1


def measured_settings(table: SourceTable, roles: Mapping[str, str], seed: str | None) -> list[str]:
    """Numbers that are called like a setting, but of which each run has its own, such as a learning
    rate at its last step or the number of a job: without them, the other settings have the same
    seeds again and again."""
    if seed is None:
        return []
    for share in (MANY_VALUES, MOST_VALUES):
        settings = [column for column, role in roles.items() if role == "setting"]
        single = [column for column in settings if is_own(table, column, share)]
        shared = _varying(table, roles, single)
        groups = _seeds_by_settings(table, shared, seed)
        if single and shared and _are_rows(groups, needs_whole=share < MANY_VALUES):
            return single
    return []


def settings_called_like_scores(
    table: SourceTable, roles: Mapping[str, str], seed: str | None
) -> list[str]:
    """Whole numbers such as a precision of 16 and 32 bits: one for all runs, or without them rows
    have the same seeds again and again."""
    return [
        column
        for column, role in roles.items()
        if role == "measured"
        and is_metric_name(column)
        and not _has_fractions(_numbers(table, column))
        and _separates_rows(table, roles, column, seed)
    ]


def _separates_rows(
    table: SourceTable, roles: Mapping[str, str], column: str, seed: str | None
) -> bool:
    values = {*table.values(column)}
    if len(values) == 1:
        return len(table.lines) > 1
    if seed is None or not is_shared(table, column):
        return False
    settings = _varying(table, roles, ())
    without = _seeds_by_settings(table, settings, seed)
    separated = _seeds_by_settings(table, [*settings, column], seed)
    return not _are_rows(without, needs_whole=False) and _are_rows(separated, needs_whole=False)


def names_each_run(table: SourceTable, column: str) -> bool:
    """Whether it is a text that no two runs share, such as a path."""
    values = table.values(column)
    are_texts = bool(values) and all(isinstance(value, str) for value in values)
    return are_texts and len({*values}) == len(values) >= FEWEST_RUNS


def is_shared_text(table: SourceTable, column: str) -> bool:
    """Whether every run has a text, and several runs have the same one."""
    values = table.values(column)
    are_texts = len(values) == len(table.lines) and all(isinstance(text, str) for text in values)
    return are_texts and 1 < len({*values}) < len(values)


def varies(table: SourceTable, column: str, seed: str | None) -> bool:
    """Whether it has several values, which the seed doesn't decide."""
    if len({*table.values(column)}) < 2:
        return False
    pairs = {(line.get(seed or ""), line.get(column)) for line in table.lines}
    seeds = {number for number, _ in pairs}
    return len(seeds) < len(pairs) or len(seeds) == len(table.lines)


def _numbers(table: SourceTable, column: str) -> list[Value]:
    return [value for value in table.values(column) if is_number(value)]


def _has_fractions(numbers: Sequence[Value]) -> bool:
    return any(whole_number(value) is None for value in numbers)


def _varying(table: SourceTable, roles: Mapping[str, str], left_out: Sequence[str]) -> list[str]:
    """Settings and the column of rows, without some."""
    return [
        column
        for column, role in roles.items()
        if role in ("setting", "row")
        and column not in left_out
        and len({line.get(column) for line in table.lines}) > 1
    ]


def _seeds_by_settings(table: SourceTable, settings: Sequence[str], seed: str) -> list[list[Value]]:
    """Of each combination of settings the seeds of its runs."""
    groups: dict[tuple[Value, ...], list[Value]] = {}
    for line in table.lines:
        key = tuple(line.get(column) for column in settings)
        groups.setdefault(key, []).append(line.get(seed))
    return list(groups.values())


def _are_rows(groups: Sequence[Sequence[Value]], *, needs_whole: bool) -> bool:
    """Whether no group has a seed twice, and most have several. ``needs_whole``: all have the same
    seeds."""
    if any(len({*group}) < len(group) for group in groups):
        return False
    runs = sum(len(group) for group in groups)
    seed_sets = {frozenset(group) for group in groups}
    return len(groups) <= runs / 2 and (len(seed_sets) == 1 or not needs_whole)
