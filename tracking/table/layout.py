"""The study's table in the layout of the paper's Table 3: which columns and lines each format
prints."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.table import Table

from tracking.card import TESTED, Card, Metric
from tracking.statistics.references import NOT_COMPARED
from tracking.statistics.study_findings import MIXED_SETTINGS, OTHER_SETTINGS
from tracking.statistics.table_row import TableRow
from tracking.table.caption import caption
from tracking.table.columns import (
    ALL_COST_LABELS,
    CHANGED,
    COST_LABELS,
    DEVICE_COST_LABELS,
    OBJECTS,
    PARAMS,
    REFERRING,
    StudyColumn,
    change_of,
    columns_of,
    other_changes,
    seeds_of,
)
from tracking.table.latex import latex
from tracking.table.short_caption import short_caption
from tracking.table.study_table import StudyTable, View
from tracking.table.text import (
    FOR_PROGRAMS,
    LEAST,
    Cell,
    TextTable,
    fitting,
    for_programs,
    html,
    lines_of,
    markdown,
    terminal,
)
from tracking.words import grouped

MISSING = "–"
EXPLAINED = (OTHER_SETTINGS, MIXED_SETTINGS, NOT_COMPARED)
"""Words that the row's note or the caption explains, which a table for people leaves out."""


def table_text(kind: str, table: StudyTable) -> str:
    """The table as md, csv, json, tex or html. CSV and JSON hold unrounded numbers; a missing one
    of ours reads FAILED, missing, … in CSV, and null in JSON."""
    view = table.view
    if kind in FOR_PROGRAMS:
        names = view.named or (csv_names(table) if kind == "csv" else json_names(table))
        return for_programs(kind, _columns(table, names), table.rows)
    if kind == "md":
        text_table = _for_people(table, " ± ", short=bool(view.short))
        return markdown(_with_summary(text_table, view, "\n"))
    if kind == "tex":
        without_notes = replace(table, view=replace(view, notes=False))
        text_table = _for_people(without_notes, " ± ", short=view.short is not False)
        return latex(_with_summary(text_table, view, ". "), _notes(table), view.label)
    names = view.named or page_names(table)
    if view.verdicts and not view.named:
        names += [f"verdict_{name}" for name in table.findings.verdicts]
    column_of_name = columns_of(table)
    columns = [column_of_name[name] for name in names]
    return html(_text_table(table, columns, lines_of(columns, table.rows)))


def _columns(table: StudyTable, names: Sequence[str]) -> list[StudyColumn]:
    """Those of these names, for programs."""
    column_of_name = columns_of(table)
    return [replace(column_of_name[name], name=name) for name in names]


def _with_summary(text_table: TextTable, view: View, separator: str) -> TextTable:
    """The summary begins the caption, as a file has no line above its table. A caption that the
    user wrote stays as it is."""
    if view.caption is not None:
        return text_table
    parts = filter(None, [text_table.summary, text_table.caption])
    return replace(text_table, caption=separator.join(parts))


def shown(table: StudyTable, width: int = 120) -> Table:
    """The table for a terminal: our scores, their differences and the published ones, then costs;
    or chosen columns.

    A standard deviation is below its mean if there is no room next to it."""
    beside = _for_people(table, "±")
    needed = len(beside.columns)
    if not table.view.columns and not table.view.verdicts:
        needed -= len(COST_LABELS)
    if len(fitting(beside, width, 2).columns) >= needed:
        return terminal(beside, width, needed)
    below = _for_people(table, "\n±")
    fitting_columns = len(fitting(below, width, 2, LEAST).columns)
    return terminal(below, width, min(needed, fitting_columns))


def viewed(table: StudyTable) -> StudyTable:
    """With the chosen rows in their order. Sorted by a metric, its best row is first; rows without
    a value are last."""
    rows = list(table.rows)
    if table.view.rows:
        rows = [row for name in table.view.rows for row in rows if row.row == name]
    column = columns_of(table).get(table.view.sort or "")
    if column is not None:
        rows = _sorted(rows, column, _is_descending(table.card, column.name))
    return replace(table, rows=rows)


def _sorted(rows: Sequence[TableRow], column: StudyColumn, descending: bool) -> list[TableRow]:
    with_value = [row for row in rows if column.value(row) is not None]
    without_value = [row for row in rows if column.value(row) is None]
    with_value.sort(key=lambda row: _sort_key(column.value(row)), reverse=descending)
    return with_value + without_value


def _sort_key(value: Any) -> tuple[bool, float, str]:
    """Numbers before words."""
    if isinstance(value, int | float):
        return False, value, ""
    return True, 0.0, str(value)


def _is_descending(card: Card, name: str) -> bool:
    """Whether the column holds values, or differences in them, that are better when larger."""
    prefixes = ("", "delta_", "delta_common_seeds_", "paper_", "paper_delta_", "best_")
    names = set[str]()
    for metric in card.tabled:
        if metric.better == "up":
            names |= {f"{prefix}{metric.name}" for prefix in prefixes}
    return name in names


def _for_people(table: StudyTable, plus_minus: str, short: bool | None = None) -> TextTable:
    """The columns of a terminal, Markdown and LaTeX: what the row changes comes first."""
    column_of_name = columns_of(table, plus_minus)
    change = replace(column_of_name["change"], text=partial(_change_with_note, table))
    columns = [column_of_name["row"], change] if table.view.names else [change]
    for name in _people_names(table):
        column = column_of_name[name]
        if name.startswith("paper_delta_"):  # it is right of our difference
            column = replace(column, head="paper\nΔ")
        columns.append(column)
    if short is None:
        short = bool(table.view.short)
    lines = [brief(table.card, columns, row, EXPLAINED) for row in table.rows]
    return _text_table(table, columns, lines, short)


def _people_names(table: StudyTable) -> list[str]:
    """Verdicts have a table of their own: a terminal has no room next to everything else."""
    if table.view.columns:
        return [name for name in table.view.columns if name not in ("row", "change")]
    if not table.view.verdicts:
        return [*score_names(table), *COST_LABELS]
    names = []
    for metric in table.card.tabled:
        if metric.name in table.findings.verdicts:
            names.append(f"paper_delta_{metric.name}")
            names.append(f"delta_{metric.name}")
            names.append(f"verdict_{metric.name}")
    return names


def _change_with_note(table: StudyTable, row: TableRow) -> str:
    """The change, and the row's note below it, unless it replaces the numbers or is below the
    table."""
    change = change_of(row)
    if not table.view.names:
        change += table.findings.row_mark(row)
    return f"{change}\n{row.notes.brief}" if table.view.notes and _has_note(row) else change


def _has_note(row: TableRow) -> bool:
    """Whether the row's note says more than the word in place of its numbers."""
    return row.notes.brief not in ("", row.status)


def _notes(table: StudyTable) -> list[str]:
    """For print, below the table: each note after its rows, in the words for their changes."""
    noted = [row for row in table.rows if _has_note(row)]
    changes_of_note = grouped((row.notes.brief, change_of(row)) for row in noted)
    return [f"{'; '.join(changes)}: {note}." for note, changes in changes_of_note.items()]


def brief(
    card: Card, columns: Sequence[StudyColumn], row: TableRow, hidden_words: Collection[str] = ()
) -> tuple[Cell, ...]:
    """The row's cells, in which the state of an unfinished row appears once, and none of the
    ``hidden_words``."""
    deltas = {f"delta_{metric.name}" for metric in card.tabled}
    measured = {*(metric.name for metric in card.tabled), *ALL_COST_LABELS, "steps"}
    cells = list[Cell]()
    has_status = False
    for column in columns:
        cell = Cell(column.text(row), column.best(row))
        repeats_status = column.name in deltas or (has_status and column.name in measured)
        has_status = has_status or cell.text == row.status
        is_hidden = cell.text in hidden_words or (row.seeds == 0 and repeats_status)
        cells.append(Cell(MISSING) if is_hidden else cell)
    return tuple(cells)


def _text_table(
    table: StudyTable,
    columns: Sequence[StudyColumn],
    lines: Sequence[tuple[Cell, ...]],
    short: bool = False,
) -> TextTable:
    names = [column.name for column in columns]
    text = table.view.caption
    if text is None:
        text = short_caption(table, names) if short else caption(table, names)
    return TextTable(
        table.study.name,
        tuple(columns),
        tuple(lines),
        groups=tuple(row.group for row in table.rows),
        caption=text,
        summary=table.findings.summary,
    )


def csv_names(table: StudyTable) -> list[str]:
    """New columns are added at the end, so that those of earlier versions keep their places."""
    metrics = [metric.name for metric in table.card.tabled]
    published = published_names(table)
    names = ["row", "group", "change", "seeds", "steps", *metrics, "params", "flops"]
    names += [f"paper_{name}" for name in published]
    names.append("seconds")
    names += [f"delta_{name}" for name in metrics]
    names += [f"paper_delta_{name}" for name in published if name != PARAMS]
    names += ["asked", "note", "diverged"]
    names += [f"sd_{name}" for name in metrics]
    names += [*_test_names(table), "unlike"]
    best_of = table.findings.best_of
    if best_of:
        names += [f"best_{best_of.name}", "best_step"]
    names += _seed_names(table)
    names += [f"delta_common_seeds_{name}" for name in metrics]
    names += ["cpu_seconds", *DEVICE_COST_LABELS, "device_hours", *REFERRING]
    return names


def _test_names(table: StudyTable) -> list[str]:
    findings = table.findings
    names = []
    for metric in table.card.tabled:
        if findings.families_of(metric):
            names += [f"{prefix}_{metric.name}" for prefix in (*TESTED, "finding")]
    return [*names, *(f"verdict_{name}" for name in findings.verdicts)]


def _seed_names(table: StudyTable) -> list[str]:
    seeds = seeds_of(table.rows)
    return [f"{metric.name}_s{seed}" for metric in table.card.tabled for seed in seeds]


def json_names(table: StudyTable) -> list[str]:
    """The columns of CSV without those of single seeds; then changed cells, settings and seeds as
    objects."""
    seed_names = {*_seed_names(table)}
    names = [name for name in csv_names(table) if name not in seed_names]
    names += [*OBJECTS, "summary"]
    if table.findings.best_of:
        names.append("best_by_seed")
    return names


def column_names(table: StudyTable, headline: Metric) -> list[str]:
    """The names that a reader can choose: those of CSV, then changes."""
    with_best = replace(table, findings=replace(table.findings, best_of=headline))
    return list(dict.fromkeys([*csv_names(with_best), *table.card.symbols, "other"]))


def page_names(table: StudyTable) -> list[str]:
    """The layout of Table 3: changed cells, our measurements, the published values."""
    published = published_names(table)
    metrics = [metric.name for metric in table.card.tabled]
    names = [*_settings_names(table), *metrics]
    names += [f"delta_{name}" for name in metrics]
    names += COST_LABELS
    names += [f"paper_{name}" for name in published]
    names += [f"paper_delta_{name}" for name in metrics if name in published]
    names.append("note")
    return names


def score_names(table: StudyTable) -> list[str]:
    """Each score with its difference and the published one."""
    published = published_names(table)
    names = []
    for metric in table.card.tabled:
        names += [metric.name, f"delta_{metric.name}"]
        if metric.name in published:
            names.append(f"paper_delta_{metric.name}")
    return names


def published_names(table: StudyTable) -> list[str]:
    """The quantities with a column for published values: all of them, or those that any row has."""
    names = [*(metric.name for metric in table.card.tabled), PARAMS]
    if table.card.published_note:
        return names
    published = set[str]()
    for row in table.rows:
        published |= {name for name, value in row.published.items() if value is not None}
    return [name for name in names if name in published]


def _settings_names(table: StudyTable) -> list[str]:
    """The columns for changes: symbols that any row has a value for, and what has no symbol if any
    row has it."""
    changed = {name for row in table.rows for name in row.cells}
    names = ["row", *(CHANGED + name for name in table.card.symbols if name in changed)]
    if any(other_changes(table.card, row) for row in table.rows):
        names.append("other")
    return names
