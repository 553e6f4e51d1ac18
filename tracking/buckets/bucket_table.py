"""The table of a study's scores by bucket. People get a table per metric with a line per row,
programs get a line per row, metric and bucket."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rich.table import Table

from tracking.buckets.bucket import Bucket
from tracking.buckets.bucket_caption import caption
from tracking.buckets.bucket_scores import BucketScores
from tracking.card import TESTED, Metric
from tracking.statistics.table_row import TableRow
from tracking.table.columns import StudyColumn, change_of, columns_of
from tracking.table.latex import latex
from tracking.table.study_table import StudyTable
from tracking.table.text import (
    FOR_PROGRAMS,
    LEAST,
    Cell,
    Column,
    TextTable,
    fitting,
    for_programs,
    html,
    markdown,
    program_column,
    terminal,
)

MISSING = "–"
DRIFT = "last minus first"
"""What programs get in place of a bucket for the change from the first bucket to the last."""


@dataclass(frozen=True, eq=False)
class BucketLine:
    """For programs: one row and metric in one bucket, or its change from first to last."""

    scores: BucketScores
    metric: Metric
    row: TableRow
    columns: dict[str, StudyColumn]  # of the bucket's table
    bucket: Bucket | None

    def cell(self, prefix: str) -> StudyColumn:
        return self.columns[f"{prefix}{self.metric.name}"]


def shown(scores: BucketScores, width: int, text: str | None = None) -> list[Table]:
    """For a terminal, a table per metric. The last one has the caption."""
    tables = []
    for metric in scores.metrics:
        note = _caption(scores, text) if metric is scores.metrics[-1] else ""
        beside = _for_people(scores, [metric], "±", note)
        needed = len(beside.columns)
        if len(fitting(beside, width, 2).columns) < needed:
            beside = _for_people(scores, [metric], "\n±", note)
        fitting_columns = len(fitting(beside, width, 2, LEAST).columns)
        tables.append(terminal(beside, width, min(needed, fitting_columns)))
    return tables


def table_text(kind: str, scores: BucketScores, text: str | None = None, label: str = "") -> str:
    """As md, csv, json, tex or html. CSV and JSON hold unrounded numbers."""
    if kind in FOR_PROGRAMS:
        return for_programs(kind, _program_columns(), [*_lines(scores)])
    note = _caption(scores, text)
    if kind == "html":
        return html(_for_people(scores, scores.metrics, " ± ", note))
    tables = [(metric, _for_people(scores, [metric], " ± ", note)) for metric in scores.metrics]
    if kind == "md":
        return "\n".join(f"{table.title}\n\n{markdown(table)}" for _, table in tables)
    is_alone = len(tables) == 1
    documents = []
    for metric, table in tables:
        metric_label = label if is_alone or not label else f"{label}-{metric.name}"
        documents.append(latex(table, [], metric_label))
    return "\n".join(documents)


def _caption(scores: BucketScores, text: str | None) -> str:
    return caption(scores) if text is None else text


def _for_people(
    scores: BucketScores, metrics: Sequence[Metric], plus_minus: str, note: str
) -> TextTable:
    """A line per row to show; per metric, each bucket's score and difference, then the drift."""
    columns = [Column[TableRow]("change", "change", partial(_change, scores), change_of, "text")]
    for metric in metrics:
        columns += _metric_columns(scores, metric, plus_minus)
    rows = scores.whole.rows
    labels = " and ".join(metric.label for metric in metrics)
    set_name = scores.set_name
    return TextTable(
        f"{scores.whole.study.name}: {labels} on {set_name} by {scores.quantity.words}",
        tuple(columns),
        tuple(_cells(columns, row) for row in rows),
        groups=tuple(row.group for row in rows),
        caption=note,
    )


def _change(scores: BucketScores, row: TableRow) -> str:
    change = change_of(row) + scores.whole.findings.row_mark(row)
    has_note = row.notes.brief not in ("", row.status)
    return f"{change}\n{row.notes.brief}" if has_note else change


def _metric_columns(
    scores: BucketScores, metric: Metric, plus_minus: str
) -> Iterator[Column[TableRow]]:
    for number, bucket in enumerate(scores.buckets, start=1):
        table = scores.tables[number - 1]
        column_of_name = columns_of(table, plus_minus)
        score = column_of_name[metric.name]
        delta = column_of_name[f"delta_{metric.name}"]
        head = f"{bucket.label}\n({bucket.samples})"
        yield _moved(score, table, f"{metric.name}_{number}", head)
        yield _moved(delta, table, f"delta_{metric.name}_{number}", f"Δ\n{bucket.label}")
    drift = columns_of(scores.drift)[f"delta_{metric.name}"]
    label = scores.drift_metric(metric).label
    yield _moved(drift, scores.drift, f"drift_{metric.name}", f"Δ{label} last\nminus first")


def _moved(column: StudyColumn, table: StudyTable, name: str, head: str) -> Column[TableRow]:
    """The column of a bucket's table, for the rows of the whole table."""
    row_of_name = {row.row: row for row in table.rows}

    def text(row: TableRow) -> str:
        return column.text(row_of_name[row.row])

    def value(row: TableRow) -> Any:
        return column.value(row_of_name[row.row])

    return Column(name, head, text, value)


def _cells(columns: Sequence[Column[TableRow]], row: TableRow) -> tuple[Cell, ...]:
    """The state of a row without numbers appears once."""
    cells = list[Cell]()
    state = ""
    for column in columns:
        text = column.text(row)
        is_missing = column.name != "change" and column.value(row) is None
        cells.append(Cell(MISSING if is_missing and text == state else text))
        if is_missing:
            state = text
    return tuple(cells)


def _lines(scores: BucketScores) -> Iterator[BucketLine]:
    """By metric and row, bucket by bucket."""
    parts: list[Bucket | None] = [*scores.buckets, None]
    tables = [*scores.tables, scores.drift]
    columns_of_tables = [columns_of(table) for table in tables]
    rows_of_tables = [{row.row: row for row in table.rows} for table in tables]
    for metric in scores.metrics:
        for row in scores.whole.rows:
            for part, columns, rows in zip(parts, columns_of_tables, rows_of_tables, strict=True):
                yield BucketLine(scores, metric, rows[row.row], columns, part)


def _program_columns() -> list[Column[BucketLine]]:
    return [
        program_column("row", lambda line: line.row.row),
        program_column("group", lambda line: line.row.group),
        program_column("change", lambda line: change_of(line.row)),
        program_column("metric", _metric_name),
        program_column("set", lambda line: line.metric.set),
        program_column("by", lambda line: line.scores.quantity.field),
        program_column("bucket", lambda line: line.bucket.label if line.bucket else DRIFT),
        program_column("from", lambda line: line.bucket.low if line.bucket else None),
        program_column("to", lambda line: line.bucket.high if line.bucket else None),
        program_column("samples", lambda line: line.bucket.samples if line.bucket else None),
        program_column("seeds", lambda line: line.row.seeds),
        _of_table("score", ""),
        _of_table("sd", "sd_"),
        _of_table("delta", "delta_"),
        *(_of_table(name, f"{name}_") for name in TESTED),
        _of_table("finding", "finding_"),
        program_column("note", lambda line: line.row.notes.full),
    ]


def _metric_name(line: BucketLine) -> str:
    """Of the change from the first to the last bucket, the metric that it subtracts: nll of ppl."""
    metric = line.metric
    subtracted = metric.exp_of if line.bucket is None else None
    return subtracted or metric.name


def _of_table(name: str, prefix: str) -> Column[BucketLine]:
    """A column of the bucket's table, with its word for a missing number."""

    def value(line: BucketLine) -> Any:
        return line.cell(prefix).value(line.row)

    def missing(line: BucketLine) -> str:
        return line.cell(prefix).missing(line.row)

    return program_column(name, value, missing)
