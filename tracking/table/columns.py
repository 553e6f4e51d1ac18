"""The columns of the table: for each name, what a row's cell shows to people and holds for programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Literal

from tracking.card import Card, Metric
from tracking.statistics.findings import Findings, test_columns, tested_fields
from tracking.statistics.rows import BASE, TableRow
from tracking.table import cells
from tracking.words import number

PARAMS = "params_m"
COST_LABELS = {"params": "params", "flops": "FLOPs", "seconds": "time"}
CHANGED = "changed "
"""Before the name of a change: such a column may have the name of a measurement, such as steps."""
MORE = ("before_scaling", "cells", "decode", "mixed_decode", "other_decode", "seed_values")
"""Fields of a row that are no columns, and that JSON has, too."""
Kind = Literal["text", "setting", "number"]


@dataclass(frozen=True)
class Column:
    """``text`` and ``value`` are the cell of a row; ``missing`` stands for a value of None in CSV.

    ``best`` says whether the cell is among the best of its column."""

    name: str
    head: str
    text: Callable[[TableRow], str]
    value: Callable[[TableRow], Any]
    kind: Kind = "number"
    missing: Callable[[TableRow], str] = lambda _: ""
    best: Callable[[TableRow], bool] = lambda _: False


@dataclass(frozen=True)
class Style:
    """How a cell shows a score and a difference. ``plus_minus`` stands between a mean and its standard deviation."""

    best: bool = False
    intervals: bool = False
    plus_minus: str = " ± "


def columns_of(card: Card, rows: Sequence[TableRow], findings: Findings, style: Style) -> dict[str, Column]:
    """Every column by name. ``rows`` are those shown: the best value is the best of them."""
    found = [*_about(card, findings), *_costs(card), *_published(card), *_tests(card, findings), *_best(findings)]
    for metric in card.tabled:
        found += _of_metric(card, rows, metric, findings, style)
    known = {column.name: column for column in found}
    return {name: known[CHANGED + name] for name in card.symbols} | known


def value_of(card: Card, row: TableRow, name: str, findings: Findings) -> Any:
    """The value of a row in the column of this name."""
    column = columns_of(card, [row], findings, Style()).get(name)
    return column.value(row) if column else None


def csv_names(card: Card, rows: Sequence[TableRow], findings: Findings) -> list[str]:
    """Further columns are added at the end, so that those of earlier versions keep their places."""
    names, published = [metric.name for metric in card.tabled], published_names(card, rows)
    best = [f"best_{findings.best_of.name}", "best_step"] if findings.best_of else []
    return [
        *("row", "group", "change", "seeds", "steps", *names, "params", "flops"),
        *(*(f"paper_{name}" for name in published), "seconds", *(f"delta_{name}" for name in names)),
        *(*(f"paper_delta_{name}" for name in published if name != PARAMS), "asked", "note", "diverged"),
        *(f"sd_{name}" for name in names),
        *(*test_columns(card, findings), *best, *(f"{name}_s{seed}" for name in names for seed in seeds_of(rows))),
    ]


def json_fields(card: Card, rows: Sequence[TableRow], row: TableRow, findings: Findings) -> dict[str, Any]:
    """The row as one object: the columns of CSV but for seeds, then changed cells, settings and seeds as objects."""
    known, best = columns_of(card, rows, findings, Style()), findings.best.get(row.row)
    seeds = {f"{metric.name}_s{seed}" for metric in card.tabled for seed in seeds_of(rows)}
    fields = {name: known[name].value(row) for name in csv_names(card, rows, findings) if name not in seeds}
    fields |= {name: getattr(row, name) for name in MORE}
    if findings.samples:
        fields["sample_tests"] = tested_fields(card, row, findings)["sample_tests"]
    if findings.best_of:
        fields["best_by_seed"] = {seed: [best.values[seed], best.steps[seed]] for seed in best.values} if best else {}
    return fields


def column_names(card: Card, rows: Sequence[TableRow], findings: Findings, headline: Metric) -> list[str]:
    """The names that a reader can choose: those of CSV, then changes."""
    programs = csv_names(card, rows, replace(findings, best_of=headline))
    return list(dict.fromkeys([*programs, *card.symbols, "other"]))


def markdown_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The layout of Table 3: changed cells, our measurements, the published values."""
    published, names = published_names(card, rows), [metric.name for metric in card.tabled]
    paper = [name for name in names if name in published]
    return [
        *(*settings_names(card, rows), *names, *(f"delta_{name}" for name in names), *COST_LABELS),
        *(*(f"paper_{name}" for name in published), *(f"paper_delta_{name}" for name in paper), "note"),
    ]


def settings_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The columns for changes: symbols, then what has none, and a row's own words, if any row has them."""
    own, other = any(row.own_change for row in rows), any(_other(card, row) for row in rows)
    return ["row", *["own_change"] * own, *(CHANGED + name for name in card.symbols), *["other"] * other]


def printed_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """For a page of print: only symbols that a row changes, scores, differences and parameters."""
    names = [metric.name for metric in card.tabled]
    unchanged = set(card.symbols) - {name for row in rows if row.row != BASE for name in row.cells}
    settings = [name for name in settings_names(card, rows) if name.removeprefix(CHANGED) not in unchanged]
    return [*settings, *names, *(f"delta_{name}" for name in names), "params"]


def published_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The quantities with a column for published values: all of them, or those that any row has."""
    names = [*(metric.name for metric in card.tabled), PARAMS]
    return [name for name in names if card.published_note or any(row.published.get(name) is not None for row in rows)]


def setting_words(card: Card, settings: Mapping[str, Any]) -> list[str]:
    """The settings for scoring in the words of their task. Settings without a phrase or a value are left out."""
    names = dict.fromkeys(phrase.partition("=")[0] for phrase in card.setting_phrases)
    known = {name: settings[name] for name in names if settings.get(name) is not None}
    phrases = {name: card.setting_phrases.get(f"{name}={value}") for name, value in known.items()}
    words = {name: phrases[name] or card.setting_phrases.get(name, "") for name in known}
    return [words[name].replace("{value}", str(value)) for name, value in known.items() if words[name]]


def seeds_of(rows: Sequence[TableRow]) -> list[int]:
    """Every finished seed of these rows, in order."""
    return sorted({seed for row in rows for values in row.seed_values.values() for seed in values})


def _other(card: Card, row: TableRow) -> str:
    """The changes without a column, in words; none for base, which has all cells."""
    others = {} if row.row == BASE else {name: of for name, of in row.cells.items() if name not in card.symbols}
    phrases = {name: card.change_phrases.get(name, f"{name} {{value}}") for name in others}
    return ", ".join(phrases[name].replace("{value}", str(value)) for name, value in others.items())


def _get(field: str, name: str, row: TableRow) -> Any:
    return getattr(row, field).get(name)


def _words(name: str, text: Callable[[TableRow], str], head: str = "") -> Column:
    return Column(name, head or name, text, text, "text")


def _plain(name: str, value: Callable[[TableRow], Any], missing: Callable[[TableRow], str] = lambda _: "") -> Column:
    """A column that only programs have by default."""
    return Column(name, name.replace("_", " "), lambda row: _text(value(row)), value, missing=missing)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _about(card: Card, findings: Findings) -> Iterator[Column]:
    yield Column("row", "row", lambda row: row.row + findings.row_mark(row), attrgetter("row"), "text")
    yield _words("group", attrgetter("group"))
    yield Column("change", "change", lambda row: row.change if row.row != BASE else BASE, attrgetter("change"), "text")
    yield _words("own_change", attrgetter("own_change"), "change")
    for name, symbol in card.symbols.items():
        value = partial(_get, "cells", name)
        yield Column(CHANGED + name, symbol, partial(_cell, name), value, "setting")
    yield _words("other", partial(_other, card))
    yield Column("seeds", "seeds", lambda row: str(row.seeds), attrgetter("seeds"))
    yield Column("asked", "asked", lambda row: str(row.asked), attrgetter("asked"))
    yield Column("steps", "steps", _steps, attrgetter("steps"), missing=attrgetter("status"))
    yield _words("note", attrgetter("note"))
    seeds = attrgetter("diverged")
    yield Column("diverged", "diverged", lambda row: " ".join(map(str, row.diverged)), seeds, "text")


def _cell(name: str, row: TableRow) -> str:
    return str(row.cells.get(name, ""))


def _steps(row: TableRow) -> str:
    return row.status if row.steps is None else f"{row.steps:.10g}"


def _of_metric(
    card: Card, rows: Sequence[TableRow], metric: Metric, findings: Findings, style: Style
) -> Iterator[Column]:
    name, places = metric.name, metric.places
    best = number(metric.best(row.scores[name] for row in rows), places) if style.best else ""

    def is_best(row: TableRow) -> bool:
        return bool(best) and number(row.scores[name], places) == best

    def difference(row: TableRow) -> str:
        interval = cells.interval(row, metric, findings) if style.intervals else ""
        return "\n".join(filter(None, [cells.delta(card, row, metric, findings), interval]))

    score = partial(cells.score, card, metric=metric, plus_minus=style.plus_minus)
    missing = partial(cells.missing_score, card, metric=metric)
    yield Column(name, metric.label, score, partial(_get, "scores", name), missing=missing, best=is_best)
    missing = partial(cells.missing_delta, card, metric=metric, reference=findings.reference)
    yield Column(f"delta_{name}", f"Δ{metric.label}", difference, partial(_get, "deltas", name), missing=missing)
    yield _words(f"verdict_{name}", lambda row: findings.verdict(row, name), f"{metric.label}: verdict")
    yield _words(f"finding_{name}", lambda row: findings.words(row, metric), f"{metric.label}: finding")
    spread = partial(_get, "sd", name)
    yield Column(f"sd_{name}", f"sd {metric.label}", lambda row: number(row.sd[name], metric.decimals), spread)
    for seed in seeds_of(rows):
        yield _of_seed(name, seed)


def _of_seed(name: str, seed: int) -> Column:
    """Empty without a finished trial."""

    def missing(row: TableRow) -> str:
        return "not finite" if seed in row.seed_values[name] else ""

    return _plain(f"{name}_s{seed}", lambda row: row.seed_values[name].get(seed), missing)


def _costs(card: Card) -> Iterator[Column]:
    for place, (name, label) in enumerate(COST_LABELS.items()):
        yield Column(name, label, partial(_cost, card, place), attrgetter(name), missing=cells.missing_cost)


def _cost(card: Card, place: int, row: TableRow) -> str:
    return cells.costs(card, row)[place]


def _published(card: Card) -> Iterator[Column]:
    for metric in card.tabled:
        name, label = metric.name, metric.label
        texts = partial(cells.published_score, metric=metric), partial(cells.published_delta, metric=metric)
        yield Column(f"paper_{name}", f"paper {label}", texts[0], partial(_get, "published", name))
        yield Column(f"paper_delta_{name}", f"paper Δ{label}", texts[1], partial(_get, "published_deltas", name))
    params = partial(_get, "published", PARAMS)
    yield Column(f"paper_{PARAMS}", "paper params ×10⁶", lambda row: number(row.published[PARAMS], 0), params)


def _tests(card: Card, findings: Findings) -> Iterator[Column]:
    for name in test_columns(card, findings):
        if not name.startswith(("verdict_", "finding_")):
            yield _plain(name, partial(_test, card, findings, name))


def _test(card: Card, findings: Findings, name: str, row: TableRow) -> Any:
    return tested_fields(card, row, findings)[name]


def _best(findings: Findings) -> Iterator[Column]:
    if metric := findings.best_of:
        best = partial(cells.best_value, metric=metric, findings=findings)
        step = partial(cells.best_step, findings=findings)
        value = {row: of.mean(metric) for row, of in findings.best.items()}
        at = {row: of.step for row, of in findings.best.items()}
        yield Column(f"best_{metric.name}", f"best {metric.label}", best, lambda row: value.get(row.row))
        yield Column("best_step", "at step", step, lambda row: at.get(row.row))
