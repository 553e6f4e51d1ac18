"""The study's table as text in cells, from which Markdown, LaTeX and HTML are written."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking.statistics.findings import NONE, Findings
from tracking.statistics.rows import TableRow
from tracking.study import Study
from tracking.table.caption import caption
from tracking.table.columns import Column, Style, columns_of, markdown_names
from tracking.table.view import PLAIN, View


@dataclass(frozen=True)
class Cell:
    text: str
    best: bool = False


@dataclass(frozen=True)
class TextTable:
    """``groups`` has the group of each line. The caption's first line explains the columns."""

    columns: tuple[Column, ...]
    groups: tuple[str, ...]
    lines: tuple[tuple[Cell, ...], ...]
    caption: str


def text_table(
    study: Study, rows: Sequence[TableRow], names: Sequence[str], view: View, findings: Findings
) -> TextTable:
    """These columns, or those of the view, which follow the row's name."""
    known = columns_of(study.task, rows, findings, Style(view.best, view.intervals))
    verdicts = [f"verdict_{name}" for name in findings.verdicts] if view.verdicts else []
    columns = tuple(known[name] for name in view.named or [*names, *verdicts])
    lines = tuple(
        tuple(Cell(column.text(row).replace("\n", " "), column.best(row)) for column in columns) for row in rows
    )
    return TextTable(columns, tuple(row.group for row in rows), lines, caption(study.task, rows, findings, view))


def to_markdown(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """As Table 3: changed cells only, then our measurements, then the published values."""
    table = text_table(study, rows, markdown_names(study.task, rows), view, findings)
    head = ["", *(column.head for column in table.columns)]
    body = [[group, *map(_markdown, line)] for group, line in zip(table.groups, table.lines, strict=True)]
    lines = [list(map(_escape, head)), ["---"] * len(head), *body]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n{table.caption}\n"


def _markdown(cell: Cell) -> str:
    text = _escape(cell.text)
    return f"**{text}**" if cell.best else text


def _escape(cell: str) -> str:
    """A mark * is no emphasis."""
    return cell.replace("|", "\\|").replace("*", "\\*")
