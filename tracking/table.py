"""The study's table in the layout of the paper's Table 3: Markdown, CSV, JSON, and for the terminal."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tracking import cells, columns
from tracking.caption import caption
from tracking.card import Card
from tracking.columns import published_names
from tracking.rows import BASE as BASE
from tracking.rows import TableRow as TableRow
from tracking.rows import table as table
from tracking.study import Study

if TYPE_CHECKING:
    from rich.table import Table


def to_csv(study: Study, rows: Sequence[TableRow]) -> str:
    """One line per row, with unrounded numbers. A missing number of ours reads FAILED, missing, …; a cell that was
    not published, and an unknown cost, are empty."""
    card, published = study.task, published_names(study.task, rows)
    names = columns.csv_columns(card, published)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values, missing = columns.record(card, row, published), cells.missing(card, row)
        writer.writerow(_csv_cell(name, values[name], missing) for name in names)
    return text.getvalue()


def to_json(study: Study, rows: Sequence[TableRow]) -> str:
    """A list of objects with the columns of CSV, the changed cells and the settings; null for a missing number."""
    published = published_names(study.task, rows)
    content = [columns.record(study.task, row, published) for row in rows]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(study: Study, rows: Sequence[TableRow]) -> str:
    """As Table 3: changed cells only, then our measurements, then the published values."""
    card, published = study.task, published_names(study.task, rows)
    other = any(_other(card, row) for row in rows)
    symbols, numbers = card.symbols.values(), columns.measures(card, published)
    head = ["", "row", *symbols, *(["other"] if other else []), *numbers, "note"]
    body = [[*_setting_cells(card, row, other), *_measure_cells(card, row, published), row.note] for row in rows]
    lines = [head, ["---"] * len(head), *body]
    table_text = "\n".join("| " + " | ".join(map(_escape, line)) + " |" for line in lines)
    return f"{table_text}\n\n{caption(card, rows)}\n"


def render(study: Study, rows: Sequence[TableRow], width: int = 120) -> "Table":
    """For a terminal: one section per group, our scores and published differences. A narrow one has fewer columns."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    card, published = study.task, published_names(study.task, rows)
    possible = columns.terminal_columns(card, published)
    names = [name for name, least in possible if width >= least]
    left_out = dict.fromkeys(name.replace("\n", " ") for name, _ in possible[len(names) :])
    words = f" A wider terminal also shows {', '.join(left_out)}." if left_out else ""
    shown = Table(title=escape(study.name), box=box.SIMPLE_HEAD, caption=escape(caption(card, rows) + words))
    shown.title_justify = shown.caption_justify = "left"
    shown.add_column("", no_wrap=True)
    shown.add_column("change", max_width=32, overflow="fold")
    for name in names:
        shown.add_column(escape(name), justify="right", no_wrap=True, style="dim" if name == "paper\nΔ" else None)
    for place, row in enumerate(rows):
        group = row.group if place == 0 or rows[place - 1].group != row.group else ""
        ends = place + 1 < len(rows) and rows[place + 1].group != row.group
        numbers = _terminal_cells(card, row, published)
        shown.add_row(escape(group), _described(row), *numbers[: len(names)], end_section=ends)
    return shown


def _csv_cell(name: str, value: object, missing: Mapping[str, str]) -> object:
    if name == "delta_seeds" and isinstance(value, tuple):
        return " ".join(map(str, value))
    if value is None:
        return missing.get(name, "")
    return int(value) if isinstance(value, float) and value.is_integer() and name in missing else value


def _setting_cells(card: Card, row: TableRow, other: bool) -> list[str]:
    return [row.group, row.row, *columns.setting_cells(card, row.cells), *([_other(card, row)] if other else [])]


def _other(card: Card, row: TableRow) -> str:
    """The changes without a column; none for base, which has all cells."""
    return "" if row.row == BASE else columns.other_changes(card, row.cells)


def _measure_cells(card: Card, row: TableRow, published: Sequence[str]) -> list[str]:
    scores = [cells.score(card, row, metric) for metric in card.tabled]
    deltas = [cells.delta(card, row, metric) for metric in card.tabled]
    return [*scores, *deltas, *cells.costs(card, row), *cells.published(card, row, published)]


def _terminal_cells(card: Card, row: TableRow, published: Sequence[str]) -> list[str]:
    explained, shown = cells.explained(card), list[str]()
    for place, metric in enumerate(card.tabled):
        ours = [cells.score(card, row, metric), cells.delta(card, row, metric)]
        if row.seeds == 0:  # the state appears once: the note below the change has the cause
            ours = [ours[0] if place == 0 else "–", "–"]
        shown += ["–" if cell in explained else cell for cell in ours]
        shown += [cells.published_delta(row, metric)] if metric.name in published else []
    return shown + (cells.costs(card, row) if row.seeds else ["–"] * 3)


def _described(row: TableRow) -> str:
    from rich.markup import escape

    change = row.change if row.row != BASE else BASE
    shown = not row.note or row.note == row.status  # in place of the numbers
    return escape(change) + ("" if shown else f"\n[italic]{escape(row.note)}[/]")


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
