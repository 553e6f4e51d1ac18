"""The study's table in the layout of the paper's Table 3: which columns and lines each format
prints."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from rich.table import Table

from tracking.card import TESTED, Card, Metric
from tracking.statistics.findings import MIXED_SETTINGS, OTHER_SETTINGS
from tracking.statistics.references import NOT_COMPARED
from tracking.statistics.rows import TableRow
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
    StudyTable,
    View,
    change_of,
    columns_of,
    other_changes,
    seeds_of,
)
from tracking.table.latex import latex
from tracking.table.short_caption import short_caption
from tracking.table.text import (
    LEAST,
    Cell,
    TextTable,
    csv_text,
    fitting,
    html,
    json_text,
    lines_of,
    markdown,
    terminal,
)

MISSING = "–"
EXPLAINED = (OTHER_SETTINGS, MIXED_SETTINGS, NOT_COMPARED)
"""The words that the row's note or the caption explains, for tables without room for them."""


def written(kind: str, table: StudyTable) -> str:
    """The table as md, csv, json, tex or html. CSV and JSON hold unrounded numbers; a missing one
    of ours reads FAILED, missing, … in CSV, and null in JSON."""
    rows = table.rows
    view = table.view
    known = columns_of(table)
    if kind in ("csv", "json"):
        names = view.named or (csv_names if kind == "csv" else json_names)(table)
        return (csv_text if kind == "csv" else json_text)(
            [replace(known[name], name=name) for name in names], rows
        )
    if kind == "md":
        return markdown(
            _with_summary(_for_people(table, " ± ", short=bool(view.short)), view, "\n")
        )
    if kind == "tex":
        below = replace(table, view=replace(view, notes=False))
        made = _for_people(below, " ± ", short=view.short is not False)
        return latex(_with_summary(made, view, ". "), _notes(table), view.label)
    verdicts = [f"verdict_{name}" for name in table.findings.verdicts] if view.verdicts else []
    columns = [known[name] for name in view.named or [*page_names(table), *verdicts]]
    return html(_text_table(table, columns, lines_of(columns, rows)))


def _with_summary(made: TextTable, view: View, between: str) -> TextTable:
    """What was found begins the caption, where a file has no place above its table; your own
    caption stays as it is."""
    if view.caption is not None:
        return made
    return replace(made, caption=between.join(filter(None, [made.summary, made.caption])))


def shown(table: StudyTable, width: int = 120) -> Table:
    """The table for a terminal: our scores, their differences and the published ones, then costs;
    or chosen columns.

    A standard deviation stands below its mean where there is no room next to it."""
    beside = _for_people(table, "±")
    chosen = bool(table.view.columns or table.view.verdicts)
    scores = len(beside.columns) - (0 if chosen else len(COST_LABELS))
    if len(fitting(beside, width, 2).columns) >= scores:
        return terminal(beside, width, scores)
    below = _for_people(table, "\n±")
    return terminal(below, width, min(scores, len(fitting(below, width, 2, LEAST).columns)))


def viewed(table: StudyTable) -> StudyTable:
    """With the chosen rows in their order; sorted, the best one of a metric is first, and rows
    without a value last."""
    rows = list(table.rows)
    names = table.view.rows
    rows = [row for name in names for row in rows if row.row == name] if names else rows
    if column := columns_of(table).get(table.view.sort or ""):
        known = [row for row in rows if column.value(row) is not None]
        unknown = [row for row in rows if column.value(row) is None]
        known.sort(
            key=lambda row: _order(column.value(row)), reverse=_descending(table.card, column.name)
        )
        rows = known + unknown
    return replace(table, rows=rows)


def _order(value: Any) -> tuple[bool, float, str]:
    """Numbers before words."""
    number = isinstance(value, int | float)
    return not number, value if number else 0.0, "" if number else str(value)


def _descending(card: Card, name: str) -> bool:
    """Whether the column holds values, or differences in them, that are better when larger."""
    kinds = ("", "delta_", "delta_common_seeds_", "paper_", "paper_delta_", "best_")
    return any(
        name == f"{kind}{metric.name}" and metric.better == "up"
        for metric in card.tabled
        for kind in kinds
    )


def _for_people(table: StudyTable, plus_minus: str, short: bool | None = None) -> TextTable:
    """The columns of a terminal, which every page for people has: what the row changes comes
    first."""
    known = columns_of(table, plus_minus)
    columns = [replace(known["change"], text=_described(table))]
    if table.view.names:
        columns.insert(0, known["row"])
    columns += [_beside(known[name]) for name in _shown_names(table)]
    short = bool(table.view.short) if short is None else short
    lines = [brief(table.card, columns, row, EXPLAINED) for row in table.rows]
    return _text_table(table, columns, lines, short)


def _shown_names(table: StudyTable) -> list[str]:
    """Verdicts have a table of their own, since a terminal has no room next to everything else."""
    if table.view.columns:
        return [name for name in table.view.columns if name not in ("row", "change")]
    if table.view.verdicts:
        names = [
            metric.name for metric in table.card.tabled if metric.name in table.findings.verdicts
        ]
        return [f"{of}_{name}" for name in names for of in ("paper_delta", "delta", "verdict")]
    return [*score_names(table), *COST_LABELS]


def _beside(column: StudyColumn) -> StudyColumn:
    """Published differences stand right of ours, and need no name."""
    return replace(column, head="paper\nΔ") if column.name.startswith("paper_delta_") else column


def _described(table: StudyTable) -> Callable[[TableRow], str]:
    """The change, and the row's note below it, unless that stands in place of the numbers or below
    the table."""

    def text(row: TableRow) -> str:
        mark = "" if table.view.names else table.findings.row_mark(row)
        change = change_of(row) + mark
        return f"{change}\n{row.brief}" if table.view.notes and _adds(row) else change

    return text


def _adds(row: TableRow) -> bool:
    """Whether the row's note says more than what stands in place of its numbers."""
    return row.brief not in ("", row.status)


def _notes(table: StudyTable) -> list[str]:
    """Below a table of print: each row's note after the words for its change."""
    return [f"{change_of(row)}: {row.brief}." for row in table.rows if _adds(row)]


def brief(
    card: Card, columns: Sequence[StudyColumn], row: TableRow, left_out: Collection[str] = ()
) -> tuple[Cell, ...]:
    """The row's cells, in which the state of an unfinished row appears once, and none of the words
    ``left_out``."""
    ours = {f"{kind}{metric.name}" for metric in card.tabled for kind in ("", "delta_")} | {
        *ALL_COST_LABELS,
        "steps",
    }
    found = list[Cell]()
    told = False
    for column in columns:
        cell = Cell(column.text(row), column.best(row))
        hidden = row.seeds == 0 and column.name in ours and (told or "delta_" in column.name)
        told = told or cell.text == row.status
        found.append(Cell(MISSING) if hidden or cell.text in left_out else cell)
    return tuple(found)


def _text_table(
    table: StudyTable,
    columns: Sequence[StudyColumn],
    lines: Sequence[tuple[Cell, ...]],
    short: bool = False,
) -> TextTable:
    groups = tuple(row.group for row in table.rows)
    names = [column.name for column in columns]
    below = table.view.caption
    if below is None:
        below = short_caption(table, names) if short else caption(table, names)
    return TextTable(
        table.study.name,
        tuple(columns),
        tuple(lines),
        groups,
        below,
        summary=table.findings.summary,
    )


def csv_names(table: StudyTable) -> list[str]:
    """Further columns are added at the end, so that those of earlier versions keep their places."""
    names = [metric.name for metric in table.card.tabled]
    published = published_names(table)
    findings = table.findings
    best = [f"best_{findings.best_of.name}", "best_step"] if findings.best_of else []
    tested = [metric.name for metric in table.card.tabled if findings.families_of(metric)]
    tests = [f"{kind}_{name}" for name in tested for kind in (*TESTED, "finding")]
    verdicts = [f"verdict_{name}" for name in findings.verdicts]
    return [
        *("row", "group", "change", "seeds", "steps", *names, "params", "flops"),
        *(
            *(f"paper_{name}" for name in published),
            "seconds",
            *(f"delta_{name}" for name in names),
        ),
        *(
            *(f"paper_delta_{name}" for name in published if name != PARAMS),
            "asked",
            "note",
            "diverged",
        ),
        *(f"sd_{name}" for name in names),
        *(*tests, *verdicts, "unlike", *best, *_seed_names(table)),
        *(f"delta_common_seeds_{name}" for name in names),
        *("cpu_seconds", *DEVICE_COST_LABELS, "device_hours", *REFERRING),
    ]


def _seed_names(table: StudyTable) -> list[str]:
    return [
        f"{metric.name}_s{seed}" for metric in table.card.tabled for seed in seeds_of(table.rows)
    ]


def json_names(table: StudyTable) -> list[str]:
    """The columns of CSV but for seeds, then changed cells, settings and seeds as objects."""
    seeds = {*_seed_names(table)}
    findings = table.findings
    more = ["best_by_seed"] if findings.best_of else []
    return [*(name for name in csv_names(table) if name not in seeds), *OBJECTS, "summary", *more]


def column_names(table: StudyTable, headline: Metric) -> list[str]:
    """The names that a reader can choose: those of CSV, then changes."""
    programs = csv_names(replace(table, findings=replace(table.findings, best_of=headline)))
    return list(dict.fromkeys([*programs, *table.card.symbols, "other"]))


def page_names(table: StudyTable) -> list[str]:
    """The layout of Table 3: changed cells, our measurements, the published values."""
    published = published_names(table)
    names = [metric.name for metric in table.card.tabled]
    paper = [name for name in names if name in published]
    return [
        *(*_settings_names(table), *names, *(f"delta_{name}" for name in names), *COST_LABELS),
        *(
            *(f"paper_{name}" for name in published),
            *(f"paper_delta_{name}" for name in paper),
            "note",
        ),
    ]


def score_names(table: StudyTable) -> list[str]:
    """Each score with its difference and the published one."""
    published = published_names(table)
    return [
        f"{kind}{metric.name}"
        for metric in table.card.tabled
        for kind in ("", "delta_", *(["paper_delta_"] if metric.name in published else []))
    ]


def published_names(table: StudyTable) -> list[str]:
    """The quantities with a column for published values: all of them, or those that any row has."""
    names = [*(metric.name for metric in table.card.tabled), PARAMS]
    every = bool(table.card.published_note)
    return [
        name
        for name in names
        if every or any(row.published.get(name) is not None for row in table.rows)
    ]


def _settings_names(table: StudyTable) -> list[str]:
    """The columns for changes: symbols that any row has a value for, and what has no symbol if any
    row has it."""
    valued = {name for row in table.rows for name in row.cells}
    symbols = [CHANGED + name for name in table.card.symbols if name in valued]
    has_other = any(other_changes(table.card, row) for row in table.rows)
    return ["row", *symbols, "other"] if has_other else ["row", *symbols]
