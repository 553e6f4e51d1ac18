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
FOR_PROGRAMS = ("csv", "json")
ColumnKind = Literal["name", "text", "setting", "number", "note"]
"""How a column is set: a name never breaks, a note takes the remaining room, a setting is
centered."""
TRAILING_MARK = re.compile(r"(?<=\d)[^\w\s.,%\])]$")
"""A sign right behind a number, such as *."""
EDGES = 1
"""Blanks at the edges of a table."""
BETWEEN = 3
"""Blanks around the cells of each column."""
LEAST = 12
"""Letters of a column of text that is needed."""
WISH = 24
"""Letters of a column of text that is optional."""
MOST = 44
"""Letters of a column of text, where its lines break."""


@dataclass(frozen=True)
class Column(Generic[T]):
    """``text`` is the cell of a row for people, ``value`` the one for programs; ``missing``
    replaces None in CSV.

    ``best`` says whether the cell is among the best of its column. A ``faint`` column holds
    published numbers.
    """

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
        """A number on one line, and the mark behind it: without the mark, digits align."""
        text = self.line
        if TRAILING_MARK.search(text):
            return text[:-1], text[-1]
        return text, ""


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
    summary: str = ""  # what the table shows, in one line below its title

    @property
    def has_groups(self) -> bool:
        """Whether a column names them."""
        return bool(self.groups) and self.names_groups

    def begins(self, index: int) -> bool:
        """Whether a group begins with this line."""
        if not self.groups:
            return False
        return index == 0 or self.groups[index - 1] != self.groups[index]

    def cells(self, index: int) -> list[Cell]:
        """Those of the column at this index."""
        return [line[index] for line in self.lines]


def text_column(
    name: str, text: Callable[[T], str], kind: ColumnKind = "text", head: str = ""
) -> Column[T]:
    """A column that holds the same for people and programs."""
    return Column(name, head or name, text, text, kind)


def number_column(
    name: str,
    head: str,
    value: Callable[[T], Any],
    write: Callable[[Any], str],
    missing: Callable[[T], str] = lambda _: "",
    faint: bool = False,
) -> Column[T]:
    """A column of numbers, which shows why one is missing."""

    def text(row: T) -> str:
        cell_value = value(row)
        return missing(row) if cell_value is None else write(cell_value)

    return Column(name, head, text, value, missing=missing, faint=faint)


def program_column(
    name: str, value: Callable[[T], Any], missing: Callable[[T], str] = lambda _: ""
) -> Column[T]:
    """A column that only programs have by default."""
    return number_column(name, name.replace("_", " "), value, plain_text, missing)


def for_programs(kind: str, columns: Sequence[Column[T]], rows: Sequence[T]) -> str:
    """As csv or json. Both hold unrounded numbers."""
    return csv_text(columns, rows) if kind == "csv" else json_text(columns, rows)


def lines_of(columns: Sequence[Column[T]], rows: Sequence[T]) -> tuple[tuple[Cell, ...], ...]:
    lines = []
    for row in rows:
        lines.append(tuple(Cell(column.text(row), column.best(row)) for column in columns))
    return tuple(lines)


def terminal(
    table: TextTable, width: int | None = None, needed: int = 1, text: int = WISH
) -> Table:
    """The table of Rich: the ``needed`` columns, and as many more as fit into a terminal of this
    ``width``."""
    fitted = table if width is None else fitting(table, width, needed, text)
    title = "\n".join(filter(None, [table.title, table.summary]))
    caption = _terminal_caption(table, fitted)
    rich_table = Table(
        title=escape(title) or None,
        box=box.SIMPLE_HEAD,
        caption=escape(caption) or None,
        title_justify="left",
        caption_justify="left",
    )
    if fitted.has_groups:
        rich_table.add_column("", no_wrap=True)
    note_width = None if width is None else _note_width(fitted, width)
    texts_of_columns = [
        _add_column(rich_table, column, fitted.cells(index), note_width)
        for index, column in enumerate(fitted.columns)
    ]
    for index in range(len(fitted.lines)):
        texts = [_group_cell(fitted, index)] if fitted.has_groups else []
        texts += [column_texts[index] for column_texts in texts_of_columns]
        is_last_of_group = index + 1 < len(fitted.lines) and fitted.begins(index + 1)
        style = fitted.styles[index] if fitted.styles else ""
        rich_table.add_row(*texts, end_section=is_last_of_group, style=style or None)
    return rich_table


def _terminal_caption(table: TextTable, fitted: TextTable) -> str:
    """With the columns that do not fit."""
    heads = [
        column.head.replace("\n", " ") for column in table.columns if column not in fitted.columns
    ]
    if not heads or not table.caption:
        return table.caption
    return f"{table.caption} A wider terminal also shows {', '.join(heads)}."


def _group_cell(table: TextTable, index: int) -> str:
    """The name of the group, in its first line."""
    return escape(table.groups[index]) if table.begins(index) else ""


def fitting(table: TextTable, width: int, needed: int, text: int = WISH) -> TextTable:
    """The table without the columns that do not fit, where texts have at most this many letters.

    Names always stay, and so does a note, which is cut where the terminal ends."""
    widths = [
        _width(column, table.cells(index), text) for index, column in enumerate(table.columns)
    ]
    room = width - EDGES
    if table.has_groups:
        room -= BETWEEN + max(map(cell_len, table.groups))
    for column_width, column in zip(widths, table.columns, strict=True):
        if column.kind == "name":
            room -= BETWEEN + column_width
    places: list[int] = []
    for index, column in enumerate(table.columns):
        always_stays = column.kind in ("name", "note")
        if not always_stays:
            room -= BETWEEN + widths[index]
        if always_stays or index < needed or room >= 0:
            places.append(index)
    columns = tuple(table.columns[index] for index in places)
    lines = []
    for line in table.lines:
        lines.append(tuple(line[index] for index in places))
    return replace(table, columns=columns, lines=tuple(lines))


def _note_width(table: TextTable, width: int) -> int:
    """What the other columns of a terminal leave for a note."""
    room = width - EDGES - BETWEEN * len(table.columns)
    for index, column in enumerate(table.columns):
        if column.kind != "note":
            room -= _width(column, table.cells(index), MOST)
    return max(LEAST, room)


def _width(column: Column[Any], cells: Sequence[Cell], text: int) -> int:
    """That of the longest line, head included; of a column of text at most ``text``."""
    blocks = [column.head, *(cell.text for cell in cells)]
    longest = max(cell_len(line) for block in blocks for line in block.split("\n"))
    return min(text, longest) if column.kind == "text" else longest


def _add_column(
    rich_table: Table, column: Column[Any], cells: Sequence[Cell], note_width: int | None
) -> list[str]:
    """Returns its cells in the markup of Rich."""
    if column.kind == "number":
        return _add_numbers(rich_table, column, cells)
    head = escape(column.head)
    if column.kind == "note":
        rich_table.add_column(head, no_wrap=True, overflow="ellipsis", max_width=note_width)
    else:
        never_breaks = column.kind == "name"
        most = None if never_breaks else MOST
        rich_table.add_column(head, no_wrap=never_breaks, overflow="fold", max_width=most)
    return [_with_note(cell.text) for cell in cells]


def _add_numbers(rich_table: Table, column: Column[Any], cells: Sequence[Cell]) -> list[str]:
    head, *texts = _aligned([column.head, *(cell.text for cell in cells)])
    side: Any = "left" if head.endswith(" ") else "right"
    style = "dim" if column.faint else None
    rich_table.add_column(escape(head), justify=side, no_wrap=True, style=style)
    markup = []
    for text, cell in zip(texts, cells, strict=True):
        markup.append(f"[bold]{escape(text)}[/]" if cell.best else escape(text))
    return markup


def _aligned(texts: Sequence[str]) -> list[str]:
    """A head and its numbers, with room of its own for a mark, so that digits align.

    Rich drops blanks at the end of what it aligns right, so these columns are aligned here."""
    head, *numbers = texts
    blocks = [text.split("\n") for text in numbers]
    if not any(TRAILING_MARK.search(block[0]) for block in blocks):
        return list(texts)
    padded_blocks = [_padded(block) for block in ([head], *blocks)]
    width = max(len(line) for block in padded_blocks for line in block)
    aligned = []
    for block in padded_blocks:
        aligned.append("\n".join(line.rjust(width) for line in block))
    return aligned


def _padded(block: Sequence[str]) -> list[str]:
    """With a blank in place of the mark that the first line lacks."""
    first, *notes = block
    if not TRAILING_MARK.search(first):
        first += " "
    return [first, *notes]


def _with_note(text: str) -> str:
    """A row's note is below its name."""
    first, _, note = text.partition("\n")
    if not note:
        return escape(first)
    return f"{escape(first)}\n[italic]{escape(note)}[/]"


def markdown(table: TextTable) -> str:
    """The best cells are bold."""
    heads = ["", *(column.head.replace("\n", " ") for column in table.columns)]
    lines = [[_for_markdown(head) for head in heads], ["---" for _ in heads]]
    for group, line in zip(table.groups, table.lines, strict=True):
        lines.append([group, *map(_markdown, line)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def templates(folder: Path) -> "Environment":
    """The templates of a folder. Values in them are escaped."""
    # A table in a terminal does not need them.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

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
    environment = templates(Path(__file__).parent / "templates")
    return environment.get_template("table.html").render(table=table)


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
    content = []
    for row in rows:
        content.append({column.name: column.value(row) for column in columns})
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(cell: Cell) -> str:
    lines = [_for_markdown(line) for line in cell.text.split("\n")]
    text = "<br>".join(lines)
    return f"**{text}**" if cell.best else text


def _for_markdown(cell: str) -> str:
    """A mark * does not emphasize, and < does not begin HTML."""
    return cell.replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")


def _csv(column: Column[T], row: T) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return column.text(row)
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def plain_text(value: Any) -> str:
    """A value for programs: the items of a list are separated by semicolons."""
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
