"""Lines of a caption on single rows: those that have other seeds than base, those that failed,
those without Δ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracking.card import Metric
from tracking.statistics.rows import TableRow
from tracking.words import listed, signed

MOST_VALUES = 4
"""Rows whose differences at common seeds are written out; of more rows, the change is."""


def error_lines(rows: Sequence[TableRow]) -> Iterator[str]:
    """Each error once, with its rows: "FAILED: ValueError: no (a, b, seed 2 of c)"."""
    rows_of_error: dict[str, list[str]] = {}
    for row in rows:
        for error, seeds in row.errors.items():
            rows_of_error.setdefault(error, []).append(_failed_part(row, seeds))
    for error, names in rows_of_error.items():
        yield f"{error} ({', '.join(names)})"


def _failed_part(row: TableRow, seeds: Sequence[int]) -> str:
    """The row's name, or some of its seeds."""
    if len(seeds) == row.asked:
        return row.row
    noun = "seed" if len(seeds) == 1 else "seeds"
    return f"{noun} {seed_words(seeds)} of {row.row}"


def not_compared_lines(rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Such as "PPL has no Δ where scores can't be compared: vocab_size_500 (other pieces than
    base)."."""
    for metric in metrics:
        rows_of_reason: dict[str, list[str]] = {}
        for row in rows:
            if reason := row.not_compared.get(metric.name):
                rows_of_reason.setdefault(reason, []).append(row.row)
        parts = [f"{', '.join(names)} ({reason})" for reason, names in rows_of_reason.items()]
        if parts:
            yield f"{metric.label} has no Δ where scores can't be compared: {'; '.join(parts)}."


def seed_lines(rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Which rows have other seeds than their reference, and what Δ is at the seeds that both
    have."""
    compared = [row for row in rows if row.seeds and row.reference_seeds]
    unlike = [row for row in compared if row.finished_seeds != row.reference_seeds]
    if metrics:
        yield from _paired_seed_lines([row for row in unlike if row.paired])
        yield from _unpaired_seed_lines([row for row in unlike if not row.paired], metrics)


def _paired_seed_lines(rows: Sequence[TableRow]) -> Iterator[str]:
    """Such as "Δ is over the seeds in common with base, 1 to 3: beam_1 and beam_8."."""
    names = dict[tuple[str, str], list[str]]()
    for row in rows:
        names.setdefault((row.reference, seed_words(row.common_seeds)), []).append(row.row)
    for (reference, seeds), rows_of_seeds in names.items():
        rows_words = (
            listed(rows_of_seeds)
            if len(rows_of_seeds) <= MOST_VALUES
            else f"{len(rows_of_seeds)} rows"
        )
        if seeds:
            yield f"Δ is over the seeds in common with {reference}, {seeds}: {rows_words}."
        else:
            yield f"No seed in common with {reference}: {rows_words}."


def _unpaired_seed_lines(unlike: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    if not unlike:
        return
    reference = unlike[0].reference
    yield _unlike_seeds(unlike, reference)
    apart = [row.row for row in unlike if not row.common_seeds]
    if apart:
        yield f"No seed in common with {reference}: {', '.join(apart)}."
    moved = [line for metric in metrics if (line := _at_common_seeds(metric, unlike))]
    if moved:
        yield f"At the seeds in common {'; '.join(moved)}."
    elif len(apart) < len(unlike):
        yield "At the seeds in common Δ is the same to the digits shown."


def _unlike_seeds(rows: Sequence[TableRow], reference: str) -> str:
    """Such as "Rows have other seeds than base, which has 1 to 9: 19 rows have 1 to 3."."""
    rows_of_seeds: dict[str, list[str]] = {}
    for row in rows:
        rows_of_seeds.setdefault(seed_words(row.finished_seeds), []).append(row.row)
    parts = [f"{_row_words(names)} {seeds}" for seeds, names in rows_of_seeds.items()]
    reference_seeds = seed_words(rows[0].reference_seeds)
    return (
        f"Rows have other seeds than {reference}, which has {reference_seeds}: {'; '.join(parts)}."
    )


@dataclass(frozen=True)
class _Moved:
    """A row whose difference is another at the common seeds, as text, and by how much."""

    row: str
    difference: str
    change: str


def _at_common_seeds(metric: Metric, rows: Sequence[TableRow]) -> str:
    """Such as "Δloss is +0.003 (wide)", or "ΔBLEU is 0.2 higher in 19 rows"; empty where none
    moves."""
    moved = [row_moved for row in rows if (row_moved := _moved(metric, row)) is not None]
    if not moved:
        return ""
    name = f"Δ{metric.label}"
    changes = {row.change for row in moved}
    if len(moved) <= MOST_VALUES:
        return f"{name} is {listed([f'{row.difference} ({row.row})' for row in moved])}"
    if len(changes) > 1:
        return (
            f"{name} differs in {len(moved)} rows: delta_common_seeds_{metric.name} in CSV and JSON"
        )
    sign = moved[0].change[0]
    size = moved[0].change[1:]
    direction = "higher" if sign == "+" else "lower"
    return f"{name} is {size} {direction} in {len(moved)} rows"


def _moved(metric: Metric, row: TableRow) -> _Moved | None:
    """None where the two differences are the same to the digits shown."""
    usual = row.deltas[metric.name]
    common = row.common_deltas[metric.name]
    if usual is None or common is None:
        return None
    if signed(usual, metric.places) == signed(common, metric.places):
        return None
    return _Moved(row.row, signed(common, metric.places), signed(common - usual, metric.places))


def _row_words(names: Sequence[str]) -> str:
    """Such as "a and b have", or "19 rows have"."""
    if len(names) == 1:
        return f"{names[0]} has"
    return f"{listed(names)} have" if len(names) <= MOST_VALUES else f"{len(names)} rows have"


def seed_words(seeds: Sequence[int]) -> str:
    """Such as "1 to 9", or "1, 3"."""
    is_range = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]} to {seeds[-1]}" if is_range else ", ".join(map(str, seeds))
