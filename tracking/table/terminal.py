"""The study's table for a terminal: one section per group. A narrow terminal has fewer columns."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from tracking.card import Card
from tracking.statistics.findings import MARKS, NONE, Findings
from tracking.statistics.rows import BASE, TableRow
from tracking.study import Study
from tracking.table import cells
from tracking.table.caption import caption
from tracking.table.columns import COST_LABELS, Column, Style, columns_of, published_names
from tracking.table.view import PLAIN, View

if TYPE_CHECKING:
    from rich.table import Table

SCORES_WIDTH, STACKED_WIDTH = 48, 56  # of the score columns that every terminal shows
COST_WIDTHS = {"params": 38, "flops": 61, "seconds": 61}  # the least room besides the scores
CHANGE_WIDTH, GROUP_WIDTH = 32, 9
MISSING = "–"


def render(
    study: Study, rows: Sequence[TableRow], width: int = 120, view: View = PLAIN, findings: Findings = NONE
) -> "Table":
    """Our scores, their differences and the published ones, then costs; or the chosen columns, as many as fit."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    card, asked, view = study.task, view, _with_verdicts(study.task, view, findings)
    possible = _possible(card, rows, width, view, findings)
    shown_columns = [column for column, least in possible if width >= least]
    left_out = dict.fromkeys(_head(column).replace("\n", " ") for column, least in possible if width < least)
    words = f" A wider terminal also shows {', '.join(left_out)}." if left_out else ""
    text = caption(card, rows, findings, asked, words)
    shown = Table(title=escape(study.name), box=box.SIMPLE_HEAD, caption=escape(text))
    shown.title_justify = shown.caption_justify = "left"
    shown.add_column("", no_wrap=True)
    shown.add_column("change", max_width=CHANGE_WIDTH, overflow="fold")
    lines = [_row_cells(card, row, shown_columns) for row in rows]
    for place, column in enumerate(shown_columns):
        head, texts = _aligned(_head(column), [line[place] for line in lines])
        lines = [[*line[:place], text, *line[place + 1 :]] for line, text in zip(lines, texts, strict=True)]
        _add_column(shown, column, head)
    for place, (row, line) in enumerate(zip(rows, lines, strict=True)):
        group = row.group if place == 0 or rows[place - 1].group != row.group else ""
        ends = place + 1 < len(rows) and rows[place + 1].group != row.group
        numbers = [_bold(text, column.best(row)) for text, column in zip(line, shown_columns, strict=True)]
        shown.add_row(escape(group), _described(row, findings), *numbers, end_section=ends)
    return shown


def _with_verdicts(card: Card, view: View, findings: Findings) -> View:
    """Verdicts have a table of their own, since a terminal has no room next to everything else."""
    if not view.verdicts or view.columns:
        return view
    names = [metric.name for metric in card.tabled if metric.name in findings.verdicts]
    return replace(view, columns=tuple(f"{of}_{name}" for name in names for of in ("paper_delta", "delta", "verdict")))


def _add_column(shown: "Table", column: Column, head: str) -> None:
    from rich.markup import escape

    if column.kind == "number":
        dim = "dim" if column.name.startswith("paper_delta_") else None
        side: Literal["left", "right"] = "left" if head.endswith(" ") else "right"
        shown.add_column(escape(head), justify=side, no_wrap=True, style=dim)
    else:
        shown.add_column(escape(head), overflow="fold")


def _aligned(head: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """With a place of its own for a mark behind a number, so that digits stand below digits.

    Rich drops blanks at the end of what it aligns right, so these columns are aligned here."""
    blocks = [text.split("\n") for text in texts]
    if not any(lines[0].endswith(MARKS) for lines in blocks):
        return head, list(texts)
    blocks = [[f"{first}{'' if first.endswith(MARKS) else ' '}", *rest] for first, *rest in [[head], *blocks]]
    width = max(len(line) for lines in blocks for line in lines)
    first, *others = ["\n".join(line.rjust(width) for line in lines) for lines in blocks]
    return first, others


def _possible(
    card: Card, rows: Sequence[TableRow], width: int, view: View, findings: Findings
) -> list[tuple[Column, int]]:
    """The columns in their order, each with the least width of a terminal that shows it. A standard deviation stands
    below its mean where there is no room next to it."""
    beside = _by_width(
        card, rows, columns_of(card, rows, findings, Style(view.best, view.intervals, "±")), view, SCORES_WIDTH
    )
    least = max(least for column, least in beside if column.name not in COST_WIDTHS or view.columns)
    if width >= least:
        return beside
    return _by_width(
        card, rows, columns_of(card, rows, findings, Style(view.best, view.intervals, "\n±")), view, STACKED_WIDTH
    )


def _by_width(
    card: Card, rows: Sequence[TableRow], known: Mapping[str, Column], view: View, limit: int
) -> list[tuple[Column, int]]:
    if view.columns:
        return _chosen([known[name] for name in view.columns if name != "change"], rows)
    found, total, published = list[tuple[Column, int]](), 0, published_names(card, rows)
    for metric in card.tabled:
        paper = [f"paper_delta_{metric.name}"] if metric.name in published else []
        columns = [known[name] for name in (metric.name, f"delta_{metric.name}", *paper)]
        total += sum(2 + _width(column, rows) for column in columns)
        found += [(column, 0 if total <= limit else CHANGE_WIDTH + total) for column in columns]
    return found + [(known[name], room + total) for name, room in COST_WIDTHS.items()]


def _chosen(columns: Sequence[Column], rows: Sequence[TableRow]) -> list[tuple[Column, int]]:
    """The first one is always shown."""
    found, total = list[tuple[Column, int]](), GROUP_WIDTH + 10
    for place, column in enumerate(columns):
        total += 2 + (_width(column, rows) if column.kind == "number" else 12)
        found.append((column, total if place else 0))
    return found


def _width(column: Column, rows: Sequence[TableRow]) -> int:
    """Of the heading and the numbers. Words in place of numbers may wrap."""
    numbers = [line for row in rows if row.seeds for line in column.text(row).split("\n")]
    known = [len(line) for line in numbers if any(letter.isdigit() for letter in line)]
    return max(6, *map(len, _head(column).split("\n")), *known)


def _head(column: Column) -> str:
    """Published differences stand right of ours, and need no name."""
    return "paper\nΔ" if column.name.startswith("paper_delta_") else column.head


def _row_cells(card: Card, row: TableRow, columns: Sequence[Column]) -> list[str]:
    """The state of an unfinished row appears once: the note below the change has the cause."""
    shown: list[str] = []
    ours = {f"{kind}{metric.name}" for metric in card.tabled for kind in ("", "delta_")} | {*COST_LABELS, "steps"}
    for column in columns:
        text, told = column.text(row), row.status in shown
        hidden = text in cells.EXPLAINED or (
            row.seeds == 0 and column.name in ours and (told or "delta_" in column.name)
        )
        shown.append(MISSING if hidden else text)
    return shown


def _bold(text: str, best: bool) -> str:
    from rich.markup import escape

    return f"[bold]{escape(text)}[/]" if best else escape(text)


def _described(row: TableRow, findings: Findings) -> str:
    from rich.markup import escape

    change = (row.change if row.row != BASE else BASE) + findings.row_mark(row)
    shown = not row.note or row.note == row.status  # in place of the numbers
    return escape(change) + ("" if shown else f"\n[italic]{escape(row.note)}[/]")
