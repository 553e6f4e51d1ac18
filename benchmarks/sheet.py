"""A table for the terminal and for Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

MET = "met"
MISSED = "missed"
STYLES = {MET: "green", MISSED: "bold red"}


@dataclass(frozen=True)
class Sheet:
    """``rows`` of cells under ``columns``; the first ``words`` columns are text, the others
    numbers. ``note`` is shown.

    Rows with the same first cell are grouped.
    """

    title: str
    note: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int


def to_terminal(sheet: Sheet) -> Group:
    """The table for a terminal."""
    table = Table(title=sheet.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for i, column in enumerate(sheet.columns):
        table.add_column(column, justify="left" if i < sheet.words else "right", no_wrap=True)
    groups = [list(group) for _, group in groupby(sheet.rows, key=lambda row: row[0])]
    for group in groups:
        for row in group:
            table.add_row(*map(_styled, row))
        if len(groups) < len(sheet.rows):
            table.add_section()
    return Group(table, Text(sheet.note, style="dim"), "")


def to_markdown(sheet: Sheet) -> str:
    """A heading, the note, and the table."""
    ruler = ["---"] * sheet.words + ["---:"] * (len(sheet.columns) - sheet.words)
    lines = ["| " + " | ".join(cells) + " |" for cells in (sheet.columns, ruler, *sheet.rows)]
    return "\n".join([f"## {sheet.title}", sheet.note, "", *lines, ""])


def _styled(cell: str) -> str:
    style = STYLES.get(cell.rpartition(" ")[2])
    return f"[{style}]{cell}[/]" if style else cell
