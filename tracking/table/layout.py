"""The study's table in the layout of the paper's Table 3: which columns and lines each format prints."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from rich.table import Table

from tracking.card import Card
from tracking.statistics.findings import NONE, Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study
from tracking.table.caption import caption
from tracking.table.columns import (
    COST_LABELS,
    EXPLAINED,
    StudyColumn,
    Style,
    columns_of,
    csv_names,
    json_names,
    page_names,
    print_names,
    score_names,
)
from tracking.table.html import html
from tracking.table.latex import latex
from tracking.table.terminal import LEAST, fitting, terminal
from tracking.table.text import Cell, TextTable, csv_text, json_text, lines_of, markdown
from tracking.table.view import PLAIN, View

FORMATS = ("md", "csv", "json", "tex", "html")
MISSING = "–"


def written(kind: str, study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """The table in one of the FORMATS. CSV and JSON hold unrounded numbers; a missing one of ours reads FAILED,
    missing, … in CSV, and null in JSON."""
    card = study.task
    if kind in ("csv", "json"):
        known = columns_of(card, rows, findings)
        names = csv_names(card, rows, findings) if kind == "csv" else json_names(card, rows, findings)
        columns = [replace(known[name], name=name) for name in view.named or names]
        return csv_text(columns, rows) if kind == "csv" else json_text(columns, rows)
    if kind == "tex":
        notes = [f"{row.row}: {row.note}." for row in rows if row.note]
        return latex(text_table(study, rows, print_names(card, rows), view, findings), notes)
    return (markdown if kind == "md" else html)(text_table(study, rows, page_names(card, rows), view, findings))


def text_table(
    study: Study, rows: Sequence[TableRow], names: Sequence[str], view: View, findings: Findings
) -> TextTable:
    """These columns and those of verdicts, or the columns of the view, which follow the row's name."""
    known = columns_of(study.task, rows, findings, Style(view.best, view.intervals))
    verdicts = [f"verdict_{name}" for name in findings.verdicts] if view.verdicts else []
    columns = tuple(known[name] for name in view.named or [*names, *verdicts])
    return _table(study, rows, columns, lines_of(columns, rows), view, findings)


def shown(
    study: Study, rows: Sequence[TableRow], width: int = 120, view: View = PLAIN, findings: Findings = NONE
) -> Table:
    """The table for a terminal: our scores, their differences and the published ones, then costs; or chosen columns.

    A standard deviation stands below its mean where there is no room next to it."""
    beside, chosen = _for_terminal(study, rows, view, findings, "±"), bool(view.columns or view.verdicts)
    scores = len(beside.columns) - (0 if chosen else len(COST_LABELS))
    if len(fitting(beside, width, 2).columns) >= scores:
        return terminal(beside, width, scores)
    below = _for_terminal(study, rows, view, findings, "\n±")
    return terminal(below, width, min(scores, len(fitting(below, width, 2, LEAST).columns)))


def _for_terminal(study: Study, rows: Sequence[TableRow], view: View, findings: Findings, plus_minus: str) -> TextTable:
    known = columns_of(study.task, rows, findings, Style(view.best, view.intervals, plus_minus))
    change = replace(known["change"], text=partial(_described, findings))
    columns = [_beside(known[name]) for name in _shown_names(study.task, rows, view, findings)]
    lines = tuple(brief(study.task, [change, *columns], row, EXPLAINED) for row in rows)
    return _table(study, rows, (change, *columns), lines, view, findings)


def _shown_names(card: Card, rows: Sequence[TableRow], view: View, findings: Findings) -> list[str]:
    """Verdicts have a table of their own, since a terminal has no room next to everything else."""
    if view.columns:
        return [name for name in view.columns if name != "change"]
    if view.verdicts:
        names = [metric.name for metric in card.tabled if metric.name in findings.verdicts]
        return [f"{of}_{name}" for name in names for of in ("paper_delta", "delta", "verdict")]
    return [*score_names(card, rows), *COST_LABELS]


def _beside(column: StudyColumn) -> StudyColumn:
    """Published differences stand right of ours, and need no name."""
    return replace(column, head="paper\nΔ") if column.name.startswith("paper_delta_") else column


def _described(findings: Findings, row: TableRow) -> str:
    """The change, and the row's note below it, unless that stands in place of the numbers."""
    change = (row.change if row.row != BASE else BASE) + findings.row_mark(row)
    return change if row.note in ("", row.status) else f"{change}\n{row.note}"


def brief(
    card: Card, columns: Sequence[StudyColumn], row: TableRow, left_out: Collection[str] = ()
) -> tuple[Cell, ...]:
    """The row's cells, in which the state of an unfinished row appears once, and none of the words ``left_out``."""
    ours = {f"{kind}{metric.name}" for metric in card.tabled for kind in ("", "delta_")} | {*COST_LABELS, "steps"}
    found, told = list[Cell](), False
    for column in columns:
        cell = Cell(column.text(row), column.best(row))
        hidden = row.seeds == 0 and column.name in ours and (told or "delta_" in column.name)
        told = told or cell.text == row.status
        found.append(Cell(MISSING) if hidden or cell.text in left_out else cell)
    return tuple(found)


def _table(
    study: Study,
    rows: Sequence[TableRow],
    columns: tuple[StudyColumn, ...],
    lines: tuple[tuple[Cell, ...], ...],
    view: View,
    findings: Findings,
) -> TextTable:
    groups, below = tuple(row.group for row in rows), caption(study.task, rows, findings, view)
    return TextTable(study.name, columns, lines, groups, below)
