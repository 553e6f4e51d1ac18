"""One table as text: rows seen through columns, printed for a terminal, in Markdown and HTML, and
for programs.

A table in HTML takes nothing from elsewhere and has no script.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from rich import box
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from jinja2 import Environment

T = TypeVar("T")
ColumnKind = Literal["name", "text", "setting", "number", "note"]
"""How a column is set: a name never breaks, a note takes the room that is left, a setting is in the
middle."""
TRAILING_MARK = re.compile(r"(?<=\d)[^\w\s.,%\])]$")
"""A sign right behind a number, such as *."""
EDGES, BETWEEN = 1, 3
"""Blanks at the edges of a table, and around the cells of each column."""
LEAST, WISH, MOST = 12, 24, 44
"""Letters of a column of text: where the column is needed, where it is optional, and where its
lines break."""


@dataclass(frozen=True)
class Column(Generic[T]):
    """``text`` is the cell of a row for people, ``value`` the one for programs; ``missing`` stands
    for None in CSV.

    ``best`` says whether the cell is among the best of its column. A ``faint`` column holds others'
    numbers."""

    name: str
    head: str
    text: Callable[[T], str]
    value: Callable[[T], Any]
    kind: ColumnKind = "number"
    missing: Callable[[T], str] = lambda _: ""
    best: Callable[[T], bool] = lambda _: False
    faint: bool = False


@dataclass(frozen=True)
class Cell:
    """In a terminal, the lines of a text below its first one are a note on it."""

    text: str
    best: bool = False

    @property
    def line(self) -> str:
        """On one line."""
        return self.text.replace("\n", " ")

    @property
    def parted(self) -> tuple[str, str]:
        """A number on one line, and the mark behind it: without the mark, digits stand below
        digits."""
        text = self.line
        return (text[:-1], text[-1]) if TRAILING_MARK.search(text) else (text, "")


@dataclass(frozen=True)
class TextTable:
    """``groups`` has the group of each line, or is empty. The caption's first line explains the
    columns."""

    title: str
    columns: tuple[Column[Any], ...]
    lines: tuple[tuple[Cell, ...], ...]
    groups: tuple[str, ...] = ()
    caption: str = ""
    styles: tuple[str, ...] = ()  # of the lines, in a terminal
    names_groups: bool = True  # whether they have a column
    summary: str = ""  # what the table shows, in one line, for below its title

    @property
    def has_groups(self) -> bool:
        """Whether a column names them."""
        return bool(self.groups) and self.names_groups

    def begins(self, place: int) -> bool:
        """Whether another group begins with this line."""
        return bool(self.groups) and (place == 0 or self.groups[place - 1] != self.groups[place])


def said(
    name: str, text: Callable[[T], str], kind: ColumnKind = "text", head: str = ""
) -> Column[T]:
    """A column that holds the same for people and programs."""
    return Column(name, head or name, text, text, kind)


def lines_of(columns: Sequence[Column[T]], rows: Sequence[T]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(
        tuple(Cell(column.text(row), column.best(row)) for column in columns) for row in rows
    )


def terminal(
    table: TextTable, width: int | None = None, needed: int = 1, text: int = WISH
) -> Table:
    """The table of Rich. Behind the ``needed`` columns stand as many as fit into a terminal of this
    ``width``."""
    kept = table if width is None else fitting(table, width, needed, text)
    left = [
        column.head.replace("\n", " ") for column in table.columns if column not in kept.columns
    ]
    more = f" A wider terminal also shows {', '.join(left)}." if left and table.caption else ""
    title = "\n".join(filter(None, [table.title, table.summary]))
    shown = Table(
        title=escape(title) or None,
        box=box.SIMPLE_HEAD,
        caption=escape(table.caption + more) or None,
    )
    shown.title_justify = shown.caption_justify = "left"
    if kept.has_groups:
        shown.add_column("", no_wrap=True)
    room = None if width is None else _room(kept, width)
    cells = [
        _add_column(shown, column, [line[at] for line in kept.lines], room)
        for at, column in enumerate(kept.columns)
    ]
    for place in range(len(kept.lines)):
        group = [_group_cell(kept, place)] if kept.has_groups else []
        ends = place + 1 < len(kept.lines) and kept.begins(place + 1)
        style = kept.styles[place] if kept.styles else ""
        shown.add_row(
            *group, *(column[place] for column in cells), end_section=ends, style=style or None
        )
    return shown


def _group_cell(table: TextTable, place: int) -> str:
    """The name of the group, in its first line."""
    return escape(table.groups[place]) if table.begins(place) else ""


def fitting(table: TextTable, width: int, needed: int, text: int = WISH) -> TextTable:
    """The table without the columns that do not fit, where texts have at most so many letters.
    Names always stay, and so does a note, which is cut where the terminal ends."""
    widths = [
        _width(column, [line[at] for line in table.lines], text)
        for at, column in enumerate(table.columns)
    ]
    named = [
        BETWEEN + of
        for of, column in zip(widths, table.columns, strict=True)
        if column.kind == "name"
    ]
    room = (
        width
        - EDGES
        - sum(named)
        - (BETWEEN + max(map(cell_len, table.groups)) if table.has_groups else 0)
    )
    kept: list[int] = []
    for place, column in enumerate(table.columns):
        room -= 0 if column.kind in ("name", "note") else BETWEEN + widths[place]
        if place < needed or room >= 0 or column.kind in ("name", "note"):
            kept.append(place)
    columns = tuple(table.columns[place] for place in kept)
    return replace(
        table,
        columns=columns,
        lines=tuple(tuple(line[place] for place in kept) for line in table.lines),
    )


def _room(table: TextTable, width: int) -> int:
    """What the other columns of a terminal leave for a note."""
    whole = [
        _width(column, [line[at] for line in table.lines], MOST)
        for at, column in enumerate(table.columns)
    ]
    others = (of for of, column in zip(whole, table.columns, strict=True) if column.kind != "note")
    return max(LEAST, width - EDGES - sum(others) - BETWEEN * len(whole))


def _width(column: Column[Any], cells: Sequence[Cell], text: int) -> int:
    lines = [
        line
        for words in (column.head, *(cell.text for cell in cells))
        for line in words.split("\n")
    ]
    return (
        min(text, max(map(cell_len, lines))) if column.kind == "text" else max(map(cell_len, lines))
    )


def _add_column(
    shown: Table, column: Column[Any], cells: Sequence[Cell], room: int | None
) -> list[str]:
    """Returns its cells in the markup of Rich. ``room`` is that of a note."""
    if column.kind == "number":
        head, texts = _aligned(column.head, [cell.text for cell in cells])
        side: Any = "left" if head.endswith(" ") else "right"
        shown.add_column(
            escape(head), justify=side, no_wrap=True, style="dim" if column.faint else None
        )
        return [
            f"[bold]{escape(text)}[/]" if cell.best else escape(text)
            for text, cell in zip(texts, cells, strict=True)
        ]
    if column.kind == "note":
        shown.add_column(escape(column.head), no_wrap=True, overflow="ellipsis", max_width=room)
    else:
        shown.add_column(
            escape(column.head), no_wrap=column.kind == "name", overflow="fold", max_width=MOST
        )
    return [_with_note(cell.text) for cell in cells]


def _aligned(head: str, texts: Sequence[str]) -> tuple[str, list[str]]:
    """With a place of its own for a mark behind a number, so that digits stand below digits.

    Rich drops blanks at the end of what it aligns right, so these columns are aligned here."""
    blocks = [text.split("\n") for text in texts]
    if not any(TRAILING_MARK.search(lines[0]) for lines in blocks):
        return head, list(texts)
    blocks = [
        [f"{first}{'' if TRAILING_MARK.search(first) else ' '}", *rest]
        for first, *rest in [[head], *blocks]
    ]
    width = max(len(line) for lines in blocks for line in lines)
    first, *others = ["\n".join(line.rjust(width) for line in lines) for lines in blocks]
    return first, others


def _with_note(text: str) -> str:
    """What is said of a row stands below its name."""
    first, _, more = text.partition("\n")
    return escape(first) + (f"\n[italic]{escape(more)}[/]" if more else "")


def markdown(table: TextTable) -> str:
    """The best cells are bold."""
    head = ["", *(column.head.replace("\n", " ") for column in table.columns)]
    body = [
        [group, *map(_markdown, line)]
        for group, line in zip(table.groups, table.lines, strict=True)
    ]
    lines = [list(map(_for_markdown, head)), ["---"] * len(head), *body]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def templates(folder: Path) -> "Environment":
    """The templates of a folder. What they are given is escaped."""
    from jinja2 import (
        Environment,
        FileSystemLoader,
        StrictUndefined,
    )  # not for a table in a terminal

    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def html(table: TextTable) -> str:
    """One body of the table per group."""
    return (
        templates(Path(__file__).parent / "templates")
        .get_template("table.html")
        .render(table=table)
    )


def csv_text(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    """One line per row, with unrounded numbers; whole ones have no point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    for row in rows:
        writer.writerow(_csv(column, row) for column in columns)
    return text.getvalue()


def json_text(columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    """A list of objects; null for a missing number."""
    content = [{column.name: column.value(row) for column in columns} for row in rows]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(cell: Cell) -> str:
    lines = [_for_markdown(line) for line in cell.text.split("\n")]
    text = "<br>".join(lines)
    return f"**{text}**" if cell.best else text


def _for_markdown(cell: str) -> str:
    """A mark * is no emphasis, and < begins no HTML."""
    return cell.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _csv(column: Column[T], row: T) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return column.text(row)
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() else value
