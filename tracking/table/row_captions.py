"""Lines of a caption on single rows: those that have other seeds than base, those that failed, those without Δ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracking.card import Metric
from tracking.statistics.rows import TableRow
from tracking.words import listed, signed

MOST_VALUES = 4
"""Rows whose differences at common seeds are written out; of more rows, the change is."""


def errors(rows: Sequence[TableRow]) -> Iterator[str]:
    """Each error once, with its rows: "FAILED: ValueError: no (a, b; seed 2 of c)"."""
    of_error: dict[str, list[str]] = {}
    for row in rows:
        for text, seeds in row.errors.items():
            whole = len(seeds) == row.asked
            name = row.row if whole else f"seed{'s' * (len(seeds) > 1)} {_seed_words(seeds)} of {row.row}"
            of_error.setdefault(text, []).append(name)
    for text, names in of_error.items():
        yield f"{text} ({', '.join(names)})"


def not_compared(rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Such as "PPL has no Δ where scores can't be compared: vocab_size_500 (other pieces than base)."."""
    for metric in metrics:
        of_reason: dict[str, list[str]] = {}
        for row in rows:
            if why := row.not_compared.get(metric.name):
                of_reason.setdefault(why, []).append(row.row)
        if of_reason:
            named = "; ".join(f"{', '.join(names)} ({why})" for why, names in of_reason.items())
            yield f"{metric.label} has no Δ where scores can't be compared: {named}."


def other_seeds(rows: Sequence[TableRow], metrics: Sequence[Metric], reference: str) -> Iterator[str]:
    """Which rows have other seeds than the reference, and what Δ is at the seeds that both have."""
    others = [row for row in rows if row.seeds and row.reference_seeds and row.has_other_seeds]
    if not others or not metrics:
        return
    groups: dict[str, list[str]] = {}
    for row in others:
        groups.setdefault(_seed_words(row.finished_seeds), []).append(row.row)
    named = "; ".join(f"{_rows_words(names)} {seeds}" for seeds, names in groups.items())
    yield f"Rows have other seeds than {reference}, which has {_seed_words(others[0].reference_seeds)}: {named}."
    if apart := [row.row for row in others if not row.common_seeds]:
        yield f"No seed in common with {reference}: {', '.join(apart)}."
    at_common = [text for metric in metrics if (text := _at_common_seeds(metric, others))]
    if at_common:
        yield f"At the seeds in common {'; '.join(at_common)}."
    elif len(apart) < len(others):
        yield "At the seeds in common Δ is the same to the digits shown."


@dataclass(frozen=True)
class _Moved:
    """A row whose difference is another at the common seeds, as text, and by how much."""

    row: str
    difference: str
    change: str


def _at_common_seeds(metric: Metric, rows: Sequence[TableRow]) -> str:
    """Such as "Δloss is +0.003 (wide)", or "ΔBLEU is 0.2 higher in these 19 rows"; empty where none moves."""
    moved = [found for row in rows if (found := _moved(metric, row)) is not None]
    if not moved:
        return ""
    name = f"Δ{metric.label}"
    if len(moved) <= MOST_VALUES:
        return f"{name} is {listed([f'{of.difference} ({of.row})' for of in moved])}"
    changes = list(dict.fromkeys(of.change for of in moved))
    if len(changes) == 1:
        direction = "higher" if changes[0].startswith("+") else "lower"
        return f"{name} is {changes[0][1:]} {direction} in {len(moved)} rows"
    return f"{name} differs in {len(moved)} rows: delta_common_seeds_{metric.name} in CSV and JSON"


def _moved(metric: Metric, row: TableRow) -> _Moved | None:
    """None where the two differences are the same to the digits shown."""
    usual, common = row.deltas[metric.name], row.common_deltas[metric.name]
    if usual is None or common is None or signed(usual, metric.places) == signed(common, metric.places):
        return None
    return _Moved(row.row, signed(common, metric.places), signed(common - usual, metric.places))


def _rows_words(names: Sequence[str]) -> str:
    """Such as "a and b have", or "19 rows have"."""
    if len(names) == 1:
        return f"{names[0]} has"
    return f"{listed(names) if len(names) <= MOST_VALUES else f'{len(names)} rows'} have"


def _seed_words(seeds: Sequence[int]) -> str:
    """Such as "1 to 9", or "1, 3"."""
    is_range = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if is_range else ", ".join(map(str, seeds))
