"""The study's table in the layout of the paper's Table 3, in every format; here CSV and JSON, for programs."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tracking import cells, columns
from tracking.columns import published_names
from tracking.findings import NONE, Findings
from tracking.html_table import to_html as to_html
from tracking.latex import to_latex as to_latex
from tracking.rows import BASE as BASE
from tracking.rows import TableRow as TableRow
from tracking.rows import table as table
from tracking.study import Study
from tracking.terminal_table import render as render
from tracking.text_columns import Column, text_columns
from tracking.text_table import to_markdown as to_markdown
from tracking.view import PLAIN, View


def to_csv(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """One line per row, with unrounded numbers. A missing number of ours reads FAILED, missing, …; a cell that was
    not published, and an unknown cost, are empty."""
    card, published = study.task, published_names(study.task, rows)
    names = _chosen(view) or columns.csv_columns(card, published, columns.seeds_of(rows), findings)
    texts = text_columns(card, rows, view, findings)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        values = columns.record(card, row, published, findings) | columns.by_seed(row)
        missing = cells.missing(card, row, findings.reference) | _missing_seeds(row)
        writer.writerow(_csv_cell(name, _value(name, values, row, texts), missing) for name in names)
    return text.getvalue()


def to_json(study: Study, rows: Sequence[TableRow], view: View = PLAIN, findings: Findings = NONE) -> str:
    """A list of objects with the columns of CSV, the changed cells and the settings; null for a missing number."""
    card, published, names = study.task, published_names(study.task, rows), _chosen(view)
    texts, content = text_columns(card, rows, view, findings), list[dict[str, Any]]()
    for row in rows:
        values = columns.record(card, row, published, findings)
        chosen = {name: _value(name, values | columns.by_seed(row), row, texts) for name in names}
        content.append(chosen or values)
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _chosen(view: View) -> list[str]:
    return ["row", *(name for name in view.columns if name != "row")] if view.columns else []


def _value(name: str, values: Mapping[str, Any], row: TableRow, texts: Mapping[str, Column]) -> Any:
    """Changes are columns of their own where they were chosen."""
    return values[name] if name in values else row.cells.get(name, texts[name].text(row) if name == "other" else None)


def _missing_seeds(row: TableRow) -> dict[str, str]:
    """A seed without a finished trial is empty; one whose value was not finite says so."""
    return {name: "not finite" for name, value in columns.by_seed(row).items() if value is None}


def _csv_cell(name: str, value: object, missing: Mapping[str, str]) -> object:
    if isinstance(value, tuple | list):
        return ("; " if name == "unlike" else " ").join(map(str, value))
    if value is None:
        return missing.get(name, "")
    return int(value) if isinstance(value, float) and value.is_integer() and name in (*missing, "best_step") else value
