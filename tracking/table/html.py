"""The study's table as one page of HTML, without scripts or anything from elsewhere."""

import re
from collections.abc import Sequence
from html import escape

from tracking.statistics.findings import MARKS, NONE, Findings
from tracking.statistics.rows import TableRow
from tracking.study import Study
from tracking.table.columns import Column, markdown_names
from tracking.table.text_table import Cell, TextTable, text_table
from tracking.table.view import PLAIN, View

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; padding: 0 1.5rem; width: max-content;
  max-width: 100%; box-sizing: border-box; }
.table { overflow-x: auto; }
table { border-collapse: collapse; border-block: 2px solid; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: left; vertical-align: top; white-space: nowrap; }
thead th { border-bottom: 1px solid; }
tbody + tbody { border-top: 1px solid color-mix(in srgb, currentColor 35%, transparent); }
.number { text-align: right; }
.setting { text-align: center; }
.mark { display: inline-block; width: 0; }
.note { white-space: normal; min-width: 12rem; }
caption { caption-side: top; text-align: left; font-weight: 600; padding-bottom: .5rem; }
p { max-width: 75rem; font-size: .85rem; }
"""


def to_html(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """A page with the columns of Markdown; one body of the table per group."""
    table = text_table(study, rows, markdown_names(study.task, rows), view, findings)
    about = "".join(f"<p>{escape(line)}</p>\n" for line in table.caption.split("\n"))
    head = "".join(_head(column) for column in table.columns)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(study.name)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f'<div class="table">\n<table>\n<caption>{escape(study.name)}</caption>\n'
        f'<thead><tr><th scope="col"></th>{head}</tr></thead>\n{_bodies(table)}</table>\n</div>\n'
        f"{about}</body>\n</html>\n"
    )


def _bodies(table: TextTable) -> str:
    text, open_group = "", False
    for place, (group, line) in enumerate(zip(table.groups, table.lines, strict=True)):
        first = place == 0 or table.groups[place - 1] != group
        text += ("</tbody>\n" * open_group + "<tbody>\n") if first else ""
        open_group = True
        cells = "".join(_cell(cell, column) for cell, column in zip(line, table.columns, strict=True))
        text += f"<tr><th>{escape(group) if first else ''}</th>{cells}</tr>\n"
    return text + "</tbody>\n" * open_group


def _head(column: Column) -> str:
    """A symbol with an index, such as d_model, has it below the line."""
    text = re.sub(r"^(\w)_([A-Za-z0-9]+)$", r"\1<sub>\2</sub>", escape(column.head))
    return f'<th scope="col" class="{_class(column)}">{text}</th>'


def _cell(cell: Cell, column: Column) -> str:
    """A mark behind a number takes no room, so that digits stand below digits."""
    text = escape(cell.text)
    if column.kind == "number" and text.endswith(MARKS):
        text = f'{text[:-1]}<span class="mark">{text[-1]}</span>'
    return f'<td class="{_class(column)}">{f"<strong>{text}</strong>" if cell.best else text}</td>'


def _class(column: Column) -> str:
    return "note" if column.name == "note" else column.kind
