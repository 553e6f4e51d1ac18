"""The columns of a study's table: for each name, what a row's cell shows to people and holds for programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

from tracking.card import TESTED, Card, Metric
from tracking.statistics.findings import (
    MIXED_SETTINGS,
    NONE,
    OTHER_SETTINGS,
    Findings,
    sample_fields,
)
from tracking.statistics.rows import BASE, TableRow
from tracking.table.text import Column, Kind, said
from tracking.words import flops, millions, number, parameters, signed, signed_nonzero, spread, time

PARAMS = "params_m"
COST_LABELS = {"params": "params", "flops": "FLOPs", "seconds": "time"}
CHANGED = "changed "
"""Before the name of a change: such a column may have the name of a measurement, such as steps."""
OBJECTS = ("before_scaling", "cells", "decode", "mixed_decode", "other_decode", "seed_values")
"""Fields of a row that only JSON has."""
EXPLAINED = (OTHER_SETTINGS, MIXED_SETTINGS)
"""The words that the row's note explains, for tables without room for them."""
NOT_REPORTED = "not reported"
StudyColumn = Column[TableRow]


@dataclass(frozen=True)
class Style:
    """How a cell shows a score and a difference. ``plus_minus`` stands between a mean and its standard deviation."""

    best: bool = False
    intervals: bool = False
    plus_minus: str = " ± "


def columns_of(
    card: Card, rows: Sequence[TableRow], findings: Findings = NONE, style: Style | None = None
) -> dict[str, StudyColumn]:
    """Every column by name. ``rows`` are those shown: the best value is the best of them."""
    found = [*_about(card, findings), *_costs(card), *_published(card), *_tests(findings), *_best(findings)]
    for metric in card.tabled:
        found += _OfMetric(card, metric, findings, style or Style()).columns(rows)
    known = {column.name: column for column in found}
    return {name: known[CHANGED + name] for name in card.symbols} | known


def value_of(card: Card, row: TableRow, name: str, findings: Findings) -> Any:
    """The value of a row in the column of this name."""
    column = columns_of(card, [row], findings).get(name)
    return column.value(row) if column else None


def seeds_of(rows: Sequence[TableRow]) -> list[int]:
    """Every finished seed of these rows, in order."""
    return sorted({seed for row in rows for values in row.seed_values.values() for seed in values})


def setting_words(card: Card, settings: Mapping[str, Any]) -> list[str]:
    """The settings for scoring in the words of their task. Settings without a phrase or a value are left out."""
    names = dict.fromkeys(phrase.partition("=")[0] for phrase in card.setting_phrases)
    known = {name: settings[name] for name in names if settings.get(name) is not None}
    phrases = {name: card.setting_phrases.get(f"{name}={value}") for name, value in known.items()}
    words = {name: phrases[name] or card.setting_phrases.get(name, "") for name in known}
    return [words[name].replace("{value}", str(value)) for name, value in known.items() if words[name]]


@dataclass(frozen=True)
class _OfMetric:
    """The columns of one metric."""

    card: Card
    metric: Metric
    findings: Findings
    style: Style

    def columns(self, rows: Sequence[TableRow]) -> Iterator[StudyColumn]:
        metric, name, label = self.metric, self.metric.name, self.metric.label
        top = number(metric.best(row.scores[name] for row in rows), metric.places) if self.style.best else ""

        def is_best(row: TableRow) -> bool:
            return bool(top) and number(row.scores[name], metric.places) == top

        yield Column(name, label, self._score, _got("scores", name), missing=self._missing, best=is_best)
        delta = _got("deltas", name)
        yield Column(f"delta_{name}", f"Δ{label}", self._delta, delta, missing=self._missing_delta)
        yield said(f"verdict_{name}", partial(self.findings.verdict, metric=name), head=f"{label}: verdict")
        yield said(f"finding_{name}", partial(self.findings.words, metric=self.metric), head=f"{label}: finding")
        yield Column(f"sd_{name}", f"sd {label}", self._deviation, _got("sd", name))
        for kind in TESTED:
            yield _plain(f"{kind}_{name}", partial(self._tested, kind))
        for seed in seeds_of(rows):
            yield _plain(f"{name}_s{seed}", partial(self._of_seed, seed), partial(self._missing_seed, seed))

    def _score(self, row: TableRow) -> str:
        """The mean, with the standard deviation over two seeds or more: 91.7 ± 0.4."""
        places, deviation = self.metric.places, row.sd[self.metric.name]
        found = number(row.scores[self.metric.name], places) or self._missing(row)
        return found if deviation is None else f"{found}{self.style.plus_minus}{spread(deviation, places)}"

    def _delta(self, row: TableRow) -> str:
        """The difference with its mark; below it, the interval."""
        metric, mark, value = self.metric, self.findings.mark(row, self.metric), row.deltas[self.metric.name]
        text = signed_nonzero(value, metric.places) if mark else signed(value, metric.places)
        shown = f"{text}{mark}" if text else self._missing_delta(row)
        interval = interval_of(row, metric, self.findings) if self.style.intervals else ""
        return "\n".join(filter(None, [shown, interval]))

    def _missing(self, row: TableRow) -> str:
        return MIXED_SETTINGS if self.metric.decided_by(row.mixed_decode) else row.status

    def _missing_delta(self, row: TableRow) -> str:
        """A difference also needs a score of the reference with the same settings."""
        if row.scores[self.metric.name] is None:
            return self._missing(row)
        if self.metric.decided_by(row.other_decode):
            return OTHER_SETTINGS
        family, mixed = self.findings.families.get(self.metric.name), f"{self.findings.reference}: {MIXED_SETTINGS}"
        return mixed if family and family.untested.get(row.row) == mixed else f"no {self.findings.reference}"

    def _deviation(self, row: TableRow) -> str:
        return number(row.sd[self.metric.name], self.metric.decimals)

    def _tested(self, kind: str, row: TableRow) -> float | None:
        return getattr(self.findings.test(row, self.metric), kind, None)

    def _of_seed(self, seed: int, row: TableRow) -> float | None:
        return row.seed_values[self.metric.name].get(seed)

    def _missing_seed(self, seed: int, row: TableRow) -> str:
        """Empty without a finished trial."""
        return "not finite" if seed in row.seed_values[self.metric.name] else ""


def interval_of(row: TableRow, metric: Metric, findings: Findings) -> str:
    """Such as [−1.2, −0.3]; empty without a test."""
    found = findings.interval(row, metric)
    return f"[{', '.join(signed_nonzero(end, metric.places) for end in found)}]" if found else ""


def _about(card: Card, findings: Findings) -> Iterator[StudyColumn]:
    """What the row is, and how much of it is there."""
    yield Column("row", "row", lambda row: row.row + findings.row_mark(row), attrgetter("row"), "text")
    yield said("group", attrgetter("group"))
    yield Column("change", "change", lambda row: row.change if row.row != BASE else BASE, attrgetter("change"), "text")
    yield said("own_change", attrgetter("own_change"), head="change")
    for name, symbol in card.symbols.items():
        yield Column(CHANGED + name, symbol, partial(_cell, name), _got("cells", name), "setting")
    yield said("other", partial(_other, card))
    yield Column("seeds", "seeds", lambda row: str(row.seeds), attrgetter("seeds"))
    yield Column("asked", "asked", lambda row: str(row.asked), attrgetter("asked"))
    yield Column("steps", "steps", _steps, attrgetter("steps"), missing=attrgetter("status"))
    yield said("note", attrgetter("note"), "note")
    yield _plain("diverged", attrgetter("diverged"), between=" ", kind="text")
    for name in OBJECTS:
        yield _plain(name, attrgetter(name))


def _cell(name: str, row: TableRow) -> str:
    return str(row.cells.get(name, ""))


def _other(card: Card, row: TableRow) -> str:
    """The changes without a column, in words; none for base, which has all cells."""
    others = {} if row.row == BASE else {name: of for name, of in row.cells.items() if name not in card.symbols}
    phrases = {name: card.change_phrases.get(name, f"{name} {{value}}") for name in others}
    return ", ".join(phrases[name].replace("{value}", str(value)) for name, value in others.items())


def _steps(row: TableRow) -> str:
    return row.status if row.steps is None else f"{row.steps:.10g}"


def _costs(card: Card) -> Iterator[StudyColumn]:
    writes = {"params": millions if card.millions else parameters, "flops": flops, "seconds": time}
    for name, label in COST_LABELS.items():
        text = partial(_cost, name, writes[name])
        yield Column(name, label, text, attrgetter(name), missing=_missing_cost)


def _cost(name: str, write: Callable[[float | None], str], row: TableRow) -> str:
    return write(getattr(row, name)) or _missing_cost(row)


def _missing_cost(row: TableRow) -> str:
    """Empty in a finished row, whose costs are unknown; the caption says so."""
    return "" if row.seeds else row.status


def _published(card: Card) -> Iterator[StudyColumn]:
    """A cell that was not published is empty."""
    for metric in card.tabled:
        name, label = metric.name, metric.label
        yield Column(f"paper_{name}", f"paper {label}", partial(_paper, metric), _got("published", name), faint=True)
        text, value = partial(_paper_delta, metric), _got("published_deltas", name)
        yield Column(f"paper_delta_{name}", f"paper Δ{label}", text, value, faint=True)
    params = _got("published", PARAMS)
    yield Column(f"paper_{PARAMS}", "paper params ×10⁶", lambda row: number(row.published[PARAMS], 0), params)


def _paper(metric: Metric, row: TableRow) -> str:
    return number(row.published[metric.name], metric.places)


def _paper_delta(metric: Metric, row: TableRow) -> str:
    return signed(row.published_deltas[metric.name], metric.places)


def _tests(findings: Findings) -> Iterator[StudyColumn]:
    """What was found beyond metrics, for programs."""
    yield _plain("unlike", lambda row: [difference.text for difference in findings.unlike.get(row.row, [])])
    yield _plain("sample_tests", partial(sample_fields, findings))


def _best(findings: Findings) -> Iterator[StudyColumn]:
    """The best score that was reported while training, over the row's seeds, and its step."""
    if metric := findings.best_of:
        values = {row: of.mean(metric) for row, of in findings.best.items()}
        steps = {row: of.step for row, of in findings.best.items()}

        def value(row: TableRow) -> str:
            return number(values.get(row.row), metric.places) or _unreported(row)

        yield Column(f"best_{metric.name}", f"best {metric.label}", value, lambda row: values.get(row.row))
        yield Column("best_step", "at step", partial(_best_step, findings), lambda row: steps.get(row.row))
        yield _plain("best_by_seed", partial(_best_by_seed, findings))


def _best_step(findings: Findings, row: TableRow) -> str:
    """The first and the last one of several seeds."""
    best = findings.best.get(row.row)
    ends = dict.fromkeys([min(best.steps.values()), max(best.steps.values())]) if best else {}
    return " to ".join(map(str, ends)) or _unreported(row)


def _best_by_seed(findings: Findings, row: TableRow) -> dict[int, list[float]]:
    best = findings.best.get(row.row)
    return {seed: [best.values[seed], best.steps[seed]] for seed in best.values} if best else {}


def _unreported(row: TableRow) -> str:
    return NOT_REPORTED if row.seeds else row.status


def _got(field: str, name: str) -> Callable[[TableRow], Any]:
    return lambda row: getattr(row, field).get(name)


def _plain(
    name: str,
    value: Callable[[TableRow], Any],
    missing: Callable[[TableRow], str] = lambda _: "",
    head: str = "",
    between: str = "; ",
    kind: Kind = "number",
) -> StudyColumn:
    """A column that only programs have by default."""
    return Column(name, head or name.replace("_", " "), lambda row: _text(value(row), between), value, kind, missing)


def _text(value: Any, between: str) -> str:
    if isinstance(value, tuple | list):
        return between.join(map(str, value))
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def csv_names(card: Card, rows: Sequence[TableRow], findings: Findings) -> list[str]:
    """Further columns are added at the end, so that those of earlier versions keep their places."""
    names, published = [metric.name for metric in card.tabled], published_names(card, rows)
    best = [f"best_{findings.best_of.name}", "best_step"] if findings.best_of else []
    tests = [f"{kind}_{name}" for name in names if name in findings.families for kind in (*TESTED, "finding")]
    verdicts = [f"verdict_{name}" for name in findings.verdicts]
    return [
        *("row", "group", "change", "seeds", "steps", *names, "params", "flops"),
        *(*(f"paper_{name}" for name in published), "seconds", *(f"delta_{name}" for name in names)),
        *(*(f"paper_delta_{name}" for name in published if name != PARAMS), "asked", "note", "diverged"),
        *(f"sd_{name}" for name in names),
        *(*tests, *verdicts, "unlike", *best, *(f"{name}_s{seed}" for name in names for seed in seeds_of(rows))),
    ]


def json_names(card: Card, rows: Sequence[TableRow], findings: Findings) -> list[str]:
    """The columns of CSV but for seeds, then changed cells, settings and seeds as objects."""
    seeds = {f"{metric.name}_s{seed}" for metric in card.tabled for seed in seeds_of(rows)}
    more = ["sample_tests"] * bool(findings.samples) + ["best_by_seed"] * (findings.best_of is not None)
    return [*(name for name in csv_names(card, rows, findings) if name not in seeds), *OBJECTS, *more]


def column_names(card: Card, rows: Sequence[TableRow], findings: Findings, headline: Metric) -> list[str]:
    """The names that a reader can choose: those of CSV, then changes."""
    programs = csv_names(card, rows, replace(findings, best_of=headline))
    return list(dict.fromkeys([*programs, *card.symbols, "other"]))


def page_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The layout of Table 3: changed cells, our measurements, the published values."""
    published, names = published_names(card, rows), [metric.name for metric in card.tabled]
    paper = [name for name in names if name in published]
    return [
        *(*_settings_names(card, rows), *names, *(f"delta_{name}" for name in names), *COST_LABELS),
        *(*(f"paper_{name}" for name in published), *(f"paper_delta_{name}" for name in paper), "note"),
    ]


def print_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """For a page of print: only symbols that a row changes, scores, differences and parameters."""
    names = [metric.name for metric in card.tabled]
    unchanged = set(card.symbols) - {name for row in rows if row.row != BASE for name in row.cells}
    settings = [name for name in _settings_names(card, rows) if name.removeprefix(CHANGED) not in unchanged]
    return [*settings, *names, *(f"delta_{name}" for name in names), "params"]


def score_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """Each score with its difference and the published one."""
    published = published_names(card, rows)
    return [
        f"{kind}{metric.name}"
        for metric in card.tabled
        for kind in ("", "delta_", *(["paper_delta_"] if metric.name in published else []))
    ]


def published_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The quantities with a column for published values: all of them, or those that any row has."""
    names = [*(metric.name for metric in card.tabled), PARAMS]
    return [name for name in names if card.published_note or any(row.published.get(name) is not None for row in rows)]


def _settings_names(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """The columns for changes: symbols, then what has none, and a row's own words, if any row has them."""
    own, other = any(row.own_change for row in rows), any(_other(card, row) for row in rows)
    return ["row", *["own_change"] * own, *(CHANGED + name for name in card.symbols), *["other"] * other]
