"""A table for a terminal: one section per group. A narrow terminal has fewer columns."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from tracking.table.text import MARK, Cell, Column, TextTable

EDGES, BETWEEN = 1, 3
"""Blanks of a table, and those that each column takes besides its cells."""
LEAST, WISH, MOST = 12, 24, 44
"""Letters of a text that it has for needed columns, those that it has for others, and those after which it breaks."""


def terminal(table: TextTable, width: int | None = None, needed: int = 1, text: int = WISH) -> Table:
    """The table of Rich. Behind the ``needed`` columns stand as many as fit into a terminal of this ``width``."""
    kept = table if width is None else fitting(table, width, needed, text)
    left = [column.head.replace("\n", " ") for column in table.columns if column not in kept.columns]
    more = f" A wider terminal also shows {', '.join(left)}." if left and table.caption else ""
    shown = Table(title=escape(table.title) or None, box=box.SIMPLE_HEAD, caption=escape(table.caption + more) or None)
    shown.title_justify = shown.caption_justify = "left"
    if kept.has_groups:
        shown.add_column("", no_wrap=True)
    cells = [_add_column(shown, column, [line[at] for line in kept.lines]) for at, column in enumerate(kept.columns)]
    for place in range(len(kept.lines)):
        group = [escape(kept.groups[place]) if kept.begins(place) else ""] * kept.has_groups
        ends = place + 1 < len(kept.lines) and kept.begins(place + 1)
        style = kept.styles[place] if kept.styles else ""
        shown.add_row(*group, *(column[place] for column in cells), end_section=ends, style=style or None)
    return shown


def fitting(table: TextTable, width: int, needed: int, text: int = WISH) -> TextTable:
    """The table without the columns that do not fit beside texts of so many letters. Names always stay, and so does a
    note, which is cut where the terminal ends."""
    widths = [_width(column, [line[at] for line in table.lines], text) for at, column in enumerate(table.columns)]
    named = [BETWEEN + of for of, column in zip(widths, table.columns, strict=True) if column.kind == "name"]
    room = width - EDGES - sum(named) - (BETWEEN + max(map(cell_len, table.groups)) if table.has_groups else 0)
    kept: list[int] = []
    for place, column in enumerate(table.columns):
        room -= 0 if column.kind in ("name", "note") else BETWEEN + widths[place]
        if place < needed or room >= 0 or column.kind in ("name", "note"):
            kept.append(place)
    columns = tuple(table.columns[place] for place in kept)
    return replace(table, columns=columns, lines=tuple(tuple(line[place] for place in kept) for line in table.lines))


def _width(column: Column[Any], cells: Sequence[Cell], text: int) -> int:
    lines = [line for words in (column.head, *(cell.text for cell in cells)) for line in words.split("\n")]
    return min(text, max(map(cell_len, lines))) if column.kind == "text" else max(map(cell_len, lines))


def _add_column(shown: Table, column: Column[Any], cells: Sequence[Cell]) -> list[str]:
    """Returns its cells in the markup of Rich."""
    if column.kind == "number":
        head, texts = _aligned(column.head, [cell.text for cell in cells])
        side: Any = "left" if head.endswith(" ") else "right"
        shown.add_column(escape(head), justify=side, no_wrap=True, style="dim" if column.faint else None)
        return [
            f"[bold]{escape(text)}[/]" if cell.best else escape(text) for text, cell in zip(texts, cells, strict=True)
        ]
    if column.kind == "note":
        shown.add_column(escape(column.head), no_wrap=True, overflow="ellipsis")
    else:
        shown.add_column(escape(column.head), no_wrap=column.kind == "name", overflow="fold", max_width=MOST)
    return [_described(cell.text) for cell in cells]


def _aligned(head: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """With a place of its own for a mark behind a number, so that digits stand below digits.

    Rich drops blanks at the end of what it aligns right, so these columns are aligned here."""
    blocks = [text.split("\n") for text in texts]
    if not any(MARK.search(lines[0]) for lines in blocks):
        return head, list(texts)
    blocks = [[f"{first}{'' if MARK.search(first) else ' '}", *rest] for first, *rest in [[head], *blocks]]
    width = max(len(line) for lines in blocks for line in lines)
    first, *others = ["\n".join(line.rjust(width) for line in lines) for lines in blocks]
    return first, others


def _described(text: str) -> str:
    """What is said of a row stands below its name."""
    first, _, more = text.partition("\n")
    return escape(first) + (f"\n[italic]{escape(more)}[/]" if more else "")
