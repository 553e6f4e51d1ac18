"""The columns of the tables for people: for each name as in CSV, its heading and its text in a row."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tracking import cells, columns
from tracking.card import Card
from tracking.columns import COST_LABELS, PARAMS
from tracking.findings import Findings
from tracking.formats import number
from tracking.metrics import Metric
from tracking.rows import BASE, TableRow
from tracking.tested import verdict_of
from tracking.view import View

CHANGED = "changed "
"""Before the name of a change: such a column may have the name of a measurement, such as steps."""
Kind = Literal["text", "setting", "number"]


@dataclass(frozen=True)
class Column:
    """``text`` is the cell of a row; ``best`` says whether it is among the best of its column."""

    name: str
    head: str
    text: Callable[[TableRow], str]
    kind: Kind = "number"
    best: Callable[[TableRow], bool] = lambda _: False


def text_columns(
    card: Card, rows: Sequence[TableRow], view: View, findings: Findings, plus_minus: str = " ± "
) -> dict[str, Column]:
    """Every column by name. ``rows`` are those shown: the best value is the best of them.

    ``plus_minus`` stands between a mean and its standard deviation."""
    found = [*_about(card, findings), *_costs(card), *_published(card), *_best(findings)]
    found += [column for metric in card.tabled for column in _of_metric(card, rows, metric, view, findings, plus_minus)]
    known = {column.name: column for column in found}
    programs = columns.csv_columns(card, columns.published_names(card, rows), columns.seeds_of(rows), findings)
    others = {name: partial(_plain, card, findings, name) for name in programs if name not in known}
    known |= {name: Column(name, name.replace("_", " "), text) for name, text in others.items()}
    return {name: known[CHANGED + name] for name in card.symbols} | known


def column_names(card: Card, rows: Sequence[TableRow], findings: Findings, headline: Metric) -> list[str]:
    """The names that a reader can choose: those of CSV, then changes."""
    whole = replace(findings, best_of=headline)
    programs = columns.csv_columns(card, columns.published_names(card, rows), columns.seeds_of(rows), whole)
    return list(dict.fromkeys([*programs, *card.symbols, "other"]))


def _plain(card: Card, findings: Findings, name: str, row: TableRow) -> str:
    """A field that only programs have by default."""
    value = columns.value_of(card, row, name, findings)
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The layout of Table 3: changed cells, our measurements, the published values."""
    published, names = columns.published_names(card, rows), [metric.name for metric in card.tabled]
    paper = [name for name in names if name in published]
    return [
        *(*settings_names(card, rows), *names, *(f"delta_{name}" for name in names), *COST_LABELS),
        *(*(f"paper_{name}" for name in published), *(f"paper_delta_{name}" for name in paper), "note"),
    ]


def settings_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The columns for changes: symbols, then what has none, and a row's own words, if any row has them."""
    own, other = any(row.own_change for row in rows), any(other_changes(card, row) for row in rows)
    return ["row", *["own_change"] * own, *(CHANGED + name for name in card.symbols), *["other"] * other]


def printed_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """For a page of print: only symbols that a row changes, scores, differences and parameters."""
    names = [metric.name for metric in card.tabled]
    unchanged = set(card.symbols) - {name for row in rows if row.row != BASE for name in row.cells}
    settings = [name for name in settings_names(card, rows) if name.removeprefix(CHANGED) not in unchanged]
    return [*settings, *names, *(f"delta_{name}" for name in names), "params"]


def other_changes(card: Card, row: TableRow) -> str:
    """The changes without a column; none for base, which has all cells."""
    return "" if row.row == BASE else columns.other_changes(card, row.cells)


def _about(card: Card, findings: Findings) -> Iterator[Column]:
    yield Column("row", "row", lambda row: row.row + findings.row_mark(row), "text")
    yield Column("group", "group", lambda row: row.group, "text")
    yield Column("change", "change", lambda row: row.change if row.row != BASE else BASE, "text")
    yield Column("own_change", "change", lambda row: row.own_change, "text")
    for name, symbol in card.symbols.items():
        yield Column(CHANGED + name, symbol, partial(_cell, name), "setting")
    yield Column("other", "other", lambda row: other_changes(card, row), "text")
    yield Column("seeds", "seeds", lambda row: str(row.seeds))
    yield Column("asked", "asked", lambda row: str(row.asked))
    yield Column("steps", "steps", lambda row: row.status if row.steps is None else f"{row.steps:.10g}")
    yield Column("note", "note", lambda row: row.note, "text")
    yield Column("delta_seeds", "Δ seeds", lambda row: " ".join(map(str, row.delta_seeds)), "text")


def _cell(name: str, row: TableRow) -> str:
    return str(row.cells.get(name, ""))


def _of_metric(
    card: Card, rows: Sequence[TableRow], metric: Metric, view: View, findings: Findings, plus_minus: str
) -> Iterator[Column]:
    best = metric.best(row.scores[metric.name] for row in rows) if view.best else None
    shown = number(best, metric.places)

    def is_best(row: TableRow) -> bool:
        return bool(shown) and number(row.scores[metric.name], metric.places) == shown

    def difference(row: TableRow) -> str:
        interval = cells.interval(row, metric, findings) if view.intervals else ""
        return "\n".join(filter(None, [cells.delta(card, row, metric, findings), interval]))

    yield Column(metric.name, metric.label, lambda row: cells.score(card, row, metric, plus_minus), best=is_best)
    yield Column(f"delta_{metric.name}", f"Δ{metric.label}", difference)
    verdict = partial(verdict_of, metric=metric.name, findings=findings)
    yield Column(f"verdict_{metric.name}", f"{metric.label}: verdict", verdict, "text")
    yield Column(f"sd_{metric.name}", f"sd {metric.label}", lambda row: number(row.sd[metric.name], metric.decimals))


def _costs(card: Card) -> Iterator[Column]:
    for place, (name, label) in enumerate(COST_LABELS.items()):
        yield Column(name, label, partial(_cost, card, place))


def _cost(card: Card, place: int, row: TableRow) -> str:
    return cells.costs(card, row)[place]


def _published(card: Card) -> Iterator[Column]:
    for metric in card.tabled:
        label, score = metric.label, partial(cells.published_score, metric=metric)
        yield Column(f"paper_{metric.name}", f"paper {label}", score)
        yield Column(f"paper_delta_{metric.name}", f"paper Δ{label}", partial(cells.published_delta, metric=metric))
    yield Column(f"paper_{PARAMS}", "paper params ×10⁶", lambda row: number(row.published[PARAMS], 0))


def _best(findings: Findings) -> Iterator[Column]:
    if metric := findings.best_of:
        best = partial(cells.best_value, metric=metric, findings=findings)
        yield Column(f"best_{metric.name}", f"best {metric.label}", best)
        yield Column("best_step", "at step", partial(cells.best_step, findings=findings))
