"""Lines of a caption about single rows: those whose seeds differ from base's, those that failed,
those without Δ."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracking.card import Metric
from tracking.statistics.table_row import TableRow
from tracking.words import grouped, listed, plural, ranges, signed

MOST_VALUES = 4
"""Rows whose differences at common seeds are written out; for more rows, only the change is."""


def error_lines(rows: Sequence[TableRow]) -> Iterator[str]:
    """Each error once, with its rows: "FAILED: ValueError: no (a, b, seed 2 of c)"."""
    parts = list[tuple[str, str]]()
    for row in rows:
        for error, seeds in row.notes.errors.items():
            parts.append((error, _failed_part(row, seeds)))
    for error, names in grouped(parts).items():
        yield f"{error} ({', '.join(names)})"


def _failed_part(row: TableRow, seeds: Sequence[int]) -> str:
    """The row's name, or some of its seeds."""
    if len(seeds) == row.asked:
        return row.row
    return f"{plural('seed', len(seeds))} {ranges(seeds)} of {row.row}"


def not_compared_lines(rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Such as "PPL has no Δ where scores can't be compared: vocab_size_500 (different pieces from
    base)."."""
    for metric in metrics:
        reasons = list[tuple[str, str]]()
        for row in rows:
            reason = row.comparison.not_compared.get(metric.name)
            if reason is not None:
                reasons.append((reason, row.row))
        rows_of_reason = grouped(reasons)
        parts = [f"{', '.join(names)} ({reason})" for reason, names in rows_of_reason.items()]
        if parts:
            yield f"{metric.label} has no Δ where scores can't be compared: {'; '.join(parts)}."


def seed_lines(rows: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Which rows and their reference differ in seeds, and what Δ is at the seeds that both have."""
    compared = [row for row in rows if _has_delta(row)]
    unlike = [row for row in compared if row.finished_seeds != row.comparison.reference_seeds]
    if metrics:
        yield from _paired_seed_lines([row for row in unlike if row.comparison.paired])
        unpaired = [row for row in unlike if not row.comparison.paired]
        for reference in dict.fromkeys(row.comparison.reference for row in unpaired):
            rows_of_reference = [row for row in unpaired if row.comparison.reference == reference]
            yield from _unpaired_seed_lines(rows_of_reference, metrics)


def _has_delta(row: TableRow) -> bool:
    """In any metric."""
    return any(delta is not None for delta in row.comparison.deltas.values())


def _paired_seed_lines(rows: Sequence[TableRow]) -> Iterator[str]:
    """Such as "Δ uses the seeds in common with base, 1 to 3: beam_1 and beam_8."."""
    seeds_of_rows = list[tuple[tuple[str, str], str]]()
    for row in rows:
        seeds_of_rows.append(((row.comparison.reference, ranges(row.common_seeds)), row.row))
    for (reference, seeds), names in grouped(seeds_of_rows).items():
        if seeds:
            yield f"Δ uses the seeds in common with {reference}, {seeds}: {_row_words(names)}."
        else:
            yield f"No common seed with {reference}: {_row_words(names)}."


def _unpaired_seed_lines(unlike: Sequence[TableRow], metrics: Sequence[Metric]) -> Iterator[str]:
    """Of rows with one reference."""
    reference = unlike[0].comparison.reference
    yield _unlike_seeds(unlike, reference)
    without_common_seed = [row.row for row in unlike if not row.common_seeds]
    if without_common_seed:
        yield f"No common seed with {reference}: {', '.join(without_common_seed)}."
    changed = [line for metric in metrics if (line := _at_common_seeds(metric, unlike))]
    if changed:
        yield f"At the common seeds, {'; '.join(changed)}."
    elif len(without_common_seed) < len(unlike):
        yield "At the common seeds, Δ is the same to the digits shown."


def _unlike_seeds(rows: Sequence[TableRow], reference: str) -> str:
    """Such as "Seeds differ: base has 1 to 9; 19 rows have 1 to 3."."""
    rows_of_seeds = grouped((ranges(row.finished_seeds), row.row) for row in rows)
    parts = [f"{reference} has {ranges(rows[0].comparison.reference_seeds)}"]
    for seeds, names in rows_of_seeds.items():
        verb = "has" if len(names) == 1 else "have"
        parts.append(f"{_row_words(names)} {verb} {seeds}")
    return f"Seeds differ: {'; '.join(parts)}."


@dataclass(frozen=True)
class _CommonDelta:
    """A row's difference at the common seeds, as text, and how far that is from Δ."""

    row: str
    text: str
    change: str


def _at_common_seeds(metric: Metric, rows: Sequence[TableRow]) -> str:
    """Such as "Δloss is +0.003 (wide)", or "ΔBLEU is 0.2 higher in 19 rows"; empty if Δ is the same
    in all rows."""
    changed = [delta for row in rows if (delta := _common_delta(metric, row)) is not None]
    if not changed:
        return ""
    name = f"Δ{metric.label}"
    if len(changed) <= MOST_VALUES:
        deltas = [f"{delta.text} ({delta.row})" for delta in changed]
        return f"{name} is {listed(deltas)}"
    changes = {delta.change for delta in changed}
    if len(changes) > 1:
        column = f"delta_common_seeds_{metric.name}"
        return f"{name} differs in {len(changed)} rows: {column} in CSV and JSON"
    change = changes.pop()
    direction = "higher" if change.startswith("+") else "lower"
    return f"{name} is {change[1:]} {direction} in {len(changed)} rows"


def _common_delta(metric: Metric, row: TableRow) -> _CommonDelta | None:
    """None if it is the same as Δ to the digits shown."""
    delta = row.comparison.deltas[metric.name]
    common_delta = row.comparison.common_deltas[metric.name]
    if delta is None or common_delta is None:
        return None
    text = signed(common_delta, metric.places)
    if text == signed(delta, metric.places):
        return None
    return _CommonDelta(row.row, text, signed(common_delta - delta, metric.places))


def _row_words(names: Sequence[str]) -> str:
    """Such as "a and b", or "19 rows"."""
    return listed(names) if len(names) <= MOST_VALUES else f"{len(names)} rows"
