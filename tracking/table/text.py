"""One table as text: rows seen through columns. The printers take it: here Markdown, and CSV and JSON for programs."""

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Row = TypeVar("Row")
Kind = Literal["name", "text", "setting", "number", "note"]
"""How a column is set: a name never breaks, a note takes the room that is left, a setting is in the middle."""


MARK = re.compile(r"(?<=\d)[^\w\s.,%\])]$")
"""A sign right behind a number, such as *."""


@dataclass(frozen=True)
class Column(Generic[Row]):
    """``text`` is the cell of a row for people, ``value`` the one for programs; ``missing`` stands for None in CSV.

    ``best`` says whether the cell is among the best of its column. A ``faint`` column holds others' numbers."""

    name: str
    head: str
    text: Callable[[Row], str]
    value: Callable[[Row], Any]
    kind: Kind = "number"
    missing: Callable[[Row], str] = lambda _: ""
    best: Callable[[Row], bool] = lambda _: False
    faint: bool = False


@dataclass(frozen=True)
class Cell:
    """The first line of a text, in a terminal, is followed by what is to say of it."""

    text: str
    best: bool = False

    @property
    def line(self) -> str:
        """On one line."""
        return self.text.replace("\n", " ")

    @property
    def parted(self) -> tuple[str, str]:
        """A number on one line, and the mark behind it: without the mark, digits stand below digits."""
        text = self.line
        return (text[:-1], text[-1]) if MARK.search(text) else (text, "")


@dataclass(frozen=True)
class TextTable:
    """``groups`` has the group of each line, or is empty. The caption's first line explains the columns."""

    title: str
    columns: tuple[Column[Any], ...]
    lines: tuple[tuple[Cell, ...], ...]
    groups: tuple[str, ...] = ()
    caption: str = ""
    styles: tuple[str, ...] = ()  # of the lines, in a terminal
    names_groups: bool = True  # whether they have a column

    @property
    def has_groups(self) -> bool:
        """Whether a column names them."""
        return bool(self.groups) and self.names_groups

    def begins(self, place: int) -> bool:
        """Whether another group begins with this line."""
        return bool(self.groups) and (place == 0 or self.groups[place - 1] != self.groups[place])


def said(name: str, text: Callable[[Row], str], kind: Kind = "text", head: str = "") -> Column[Row]:
    """A column that holds the same for people and programs."""
    return Column(name, head or name, text, text, kind)


def lines_of(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(Cell(column.text(row), column.best(row)) for column in columns) for row in rows)


def markdown(table: TextTable) -> str:
    """The best cells are bold."""
    head = ["", *(column.head for column in table.columns)]
    body = [[group, *map(_markdown, line)] for group, line in zip(table.groups, table.lines, strict=True)]
    lines = [list(map(_escape, head)), ["---"] * len(head), *body]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def csv_text(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """One line per row, with unrounded numbers; whole ones have no point."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(column.name for column in columns)
    for row in rows:
        writer.writerow(_csv(column, row) for column in columns)
    return text.getvalue()


def json_text(columns: Sequence[Column[Row]], rows: Sequence[Row]) -> str:
    """A list of objects; null for a missing number."""
    content = [{column.name: column.value(row) for column in columns} for row in rows]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _markdown(cell: Cell) -> str:
    text = _escape(cell.line)
    return f"**{text}**" if cell.best else text


def _escape(cell: str) -> str:
    """A mark * is no emphasis."""
    return cell.replace("|", "\\|").replace("*", "\\*")


def _csv(column: Column[Row], row: Row) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return column.text(row)
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() else value
