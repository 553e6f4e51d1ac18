"""The study's table in the layout of the paper's Table 3, in every format; here CSV and JSON, for programs."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

from tracking.statistics.findings import NONE, Findings
from tracking.statistics.rows import BASE as BASE
from tracking.statistics.rows import TableRow as TableRow
from tracking.statistics.rows import table as table
from tracking.study import Study
from tracking.table.columns import Column, Style, columns_of, csv_names, json_fields
from tracking.table.html import to_html as to_html
from tracking.table.latex import to_latex as to_latex
from tracking.table.terminal import render as render
from tracking.table.text_table import to_markdown as to_markdown
from tracking.table.view import PLAIN, View

WHOLE = ("steps", "params", "flops", "seconds", "best_step")
"""Columns that have no point in CSV where their number is whole; so do scores and differences."""


def to_csv(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """One line per row, with unrounded numbers. A missing number of ours reads FAILED, missing, …; a cell that was
    not published, and an unknown cost, are empty."""
    known = columns_of(study.task, rows, findings, Style())
    names = view.named or csv_names(study.task, rows, findings)
    measured = {f"{kind}{metric.name}" for metric in study.task.tabled for kind in ("", "delta_")}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow(_csv_cell(known[name], row, name in (*WHOLE, *measured)) for name in names)
    return text.getvalue()


def to_json(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """A list of objects with the columns of CSV, the changed cells and the settings; null for a missing number."""
    known = columns_of(study.task, rows, findings, Style())
    content: list[dict[str, Any]] = [
        {name: known[name].value(row) for name in view.named} or json_fields(study.task, rows, row, findings)
        for row in rows
    ]
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _csv_cell(column: Column, row: TableRow, whole: bool) -> object:
    value = column.value(row)
    if isinstance(value, tuple | list):
        return ("; " if column.name == "unlike" else " ").join(map(str, value))
    if value is None:
        return column.missing(row)
    return int(value) if isinstance(value, float) and value.is_integer() and whole else value
