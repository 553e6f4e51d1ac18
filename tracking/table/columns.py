"""The columns of a study's table: for each name, what a row's cell shows to people and holds for
programs.

A reader may choose among them, and what is marked.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from tracking.card import TESTED, Card, Metric
from tracking.statistics.findings import MIXED_SETTINGS, NONE, OTHER_SETTINGS, Findings, find
from tracking.statistics.means import mean, metric_mean
from tracking.statistics.references import NOT_COMPARED
from tracking.statistics.rows import BASE, TableRow
from tracking.statistics.rows import table as table_of
from tracking.study import Study
from tracking.table.device_hours import device_hours
from tracking.table.text import Column, said
from tracking.words import (
    cell_text,
    flops,
    millions,
    number,
    parameters,
    percent,
    signed,
    spanned,
    time,
)

PARAMS = "params_m"
COST_LABELS = {"params": "params", "flops": "FLOPs", "seconds": "time"}
DEVICE_COST_LABELS = {"device_flops": "device FLOPs", "mfu": "MFU"}
"""Columns that a table shows where they are asked for, and the report's costs."""
ALL_COST_LABELS = (
    COST_LABELS
    | {"cpu_seconds": "CPU time"}
    | DEVICE_COST_LABELS
    | {"device_hours": "device hours"}
)
CHANGED = "changed "
"""Before the name of a change: such a column may have the name of a measurement, such as steps."""
OBJECTS = ("before_scaling", "cells", "decode", "mixed_decode", "other_decode", "seed_values")
"""Fields of a row that only JSON has."""
REFERRING = ("weights", "reference", "paired")
"""The row whose weights a row scores, the row that its difference is from, and whether that is seed
by seed."""
NOT_REPORTED = "not reported"
NO_COMMON_SEED = "no common seed"
StudyColumn = Column[TableRow]
Value = Callable[[TableRow], Any]


@dataclass(frozen=True)
class View:
    """Empty ``rows`` and ``columns`` mean all rows, and the columns of the format."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # as CSV names them
    sort: str | None = None  # such a name; the best value of a metric comes first
    best: bool = False  # whether the best values are bold
    intervals: bool = False  # whether differences have their intervals
    seeds: tuple[int, ...] = ()  # the chosen ones, if not all
    verdicts: bool = False  # whether differences are compared with the published ones
    notes: bool = True  # whether a row's note stands below its change
    names: bool = False  # whether a column names the rows as commands do
    short: bool | None = None  # whether the caption is that of a paper; None: the format decides
    caption: str | None = None  # instead of ours
    label: str = ""  # of LaTeX

    @property
    def named(self) -> list[str]:
        """The chosen columns, after the row's name; [] without a choice."""
        return ["row", *(name for name in self.columns if name != "row")] if self.columns else []


PLAIN_VIEW = View()


@dataclass(frozen=True)
class StudyTable:
    """The rows of a study that a reader sees, and what was found of all its rows."""

    study: Study
    rows: Sequence[TableRow]
    findings: Findings = NONE
    view: View = PLAIN_VIEW

    @property
    def card(self) -> Card:
        return self.study.task


def whole_table(study: Study, reports_of: Metric | None = None) -> StudyTable:
    """All rows, with differences from base, and with the best reports of this metric."""
    rows = table_of(study)
    return StudyTable(study, rows, find(study, rows, BASE, reports_of))


def columns_of(table: StudyTable, plus_minus: str = " ± ") -> dict[str, StudyColumn]:
    """Every column by name. ``plus_minus`` stands between a mean and its standard deviation."""
    card = table.card
    findings = table.findings
    found = [
        *_about(card, findings),
        *_costs(card),
        *_published(card),
        *_found(findings),
        *_best(findings),
    ]
    hours = partial(device_hours, table.study)
    found.append(
        _written(
            "device_hours", ALL_COST_LABELS["device_hours"], hours, "{:.3g}".format, _missing_cost
        )
    )
    for metric in card.tabled:
        found += _OfMetric(metric, findings, table.view.intervals, plus_minus).columns(table)
    known = {column.name: column for column in found}
    return {name: known[CHANGED + name] for name in card.symbols} | known


def seeds_of(rows: Sequence[TableRow]) -> list[int]:
    """Every finished seed of these rows, in order."""
    return sorted({seed for row in rows for values in row.seed_values.values() for seed in values})


def setting_words(card: Card, settings: Mapping[str, Any]) -> list[str]:
    """The settings for scoring in the words of their task. Settings without a phrase or a value are
    left out."""
    names = dict.fromkeys(phrase.partition("=")[0] for phrase in card.setting_phrases)
    known = {name: settings[name] for name in names if settings.get(name) is not None}
    phrases = {name: card.setting_phrases.get(f"{name}={value}") for name, value in known.items()}
    words = {name: phrases[name] or card.setting_phrases.get(name, "") for name in known}
    return [
        words[name].replace("{value}", str(value)) for name, value in known.items() if words[name]
    ]


@dataclass(frozen=True)
class _OfMetric:
    """The columns of one metric."""

    metric: Metric
    findings: Findings
    intervals: bool
    plus_minus: str

    def columns(self, table: StudyTable) -> Iterator[StudyColumn]:
        """The best value is the best of the shown rows."""
        metric = self.metric
        name = self.metric.name
        label = self.metric.label
        rows = table.rows
        comparable = [row.scores[name] for row in rows if name not in row.not_compared]
        top = number(metric.best(comparable), metric.places) if table.view.best else ""

        def is_best(row: TableRow) -> bool:
            is_comparable = name not in row.not_compared
            return bool(top) and is_comparable and number(row.scores[name], metric.places) == top

        yield Column(
            name, label, self._score, _got("scores", name), missing=self._missing, best=is_best
        )
        delta = _got("deltas", name)
        yield Column(f"delta_{name}", f"Δ{label}", self._delta, delta, missing=self._missing_delta)
        common = f"delta_common_seeds_{name}"
        write = partial(signed, places=metric.places)
        yield _written(
            common,
            f"Δ{label} at common seeds",
            _got("common_deltas", name),
            write,
            self._missing_delta,
        )
        yield said(
            f"verdict_{name}", partial(self.findings.verdict, metric=name), head=f"{label}: verdict"
        )
        yield said(
            f"finding_{name}", partial(self.findings.words, metric=metric), head=f"{label}: finding"
        )
        yield _written(
            f"sd_{name}", f"sd {label}", _got("sd", name), partial(number, places=metric.decimals)
        )
        for kind in TESTED:
            yield _plain(f"{kind}_{name}", partial(self._tested, kind))
        for seed in seeds_of(rows):
            yield _plain(
                f"{name}_s{seed}", partial(self._of_seed, seed), partial(self._missing_seed, seed)
            )

    def _score(self, row: TableRow) -> str:
        """The mean, with the standard deviation over two seeds or more: 91.7 ± 0.4."""
        places = self.metric.places
        deviation = row.sd[self.metric.name]
        found = number(row.scores[self.metric.name], places) or self._missing(row)
        return (
            found if deviation is None else f"{found}{self.plus_minus}{number(deviation, places)}"
        )

    def _delta(self, row: TableRow) -> str:
        """The difference with its mark; below it, the interval."""
        metric = self.metric
        mark = self.findings.mark(row, self.metric)
        value = row.deltas[self.metric.name]
        text = signed(value, metric.places)
        shown = f"{text}{mark}" if text else self._missing_delta(row)
        interval = interval_of(row, metric, self.findings) if self.intervals else ""
        return "\n".join(filter(None, [shown, interval]))

    def _missing(self, row: TableRow) -> str:
        return MIXED_SETTINGS if self.metric.decided_by(row.mixed_decode) else row.status

    def _missing_delta(self, row: TableRow) -> str:
        """A difference also needs a score of the reference with the same settings."""
        if row.scores[self.metric.name] is None:
            return self._missing(row)
        if self.metric.decided_by(row.other_decode):
            return OTHER_SETTINGS
        if self.metric.name in row.not_compared:
            return NOT_COMPARED
        reference = row.reference or self.findings.reference
        family = self.findings.family_of(row.row, self.metric)
        mixed = f"{reference}: {MIXED_SETTINGS}"
        if family and family.rows[row.row] == mixed:
            return mixed
        apart = row.paired and row.reference_seeds and not row.common_seeds
        return NO_COMMON_SEED if apart else f"no {reference}"

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
    return f"[{', '.join(signed(end, metric.places) for end in found)}]" if found else ""


def _about(card: Card, findings: Findings) -> Iterator[StudyColumn]:
    """What the row is, and how much of it is there."""
    yield Column(
        "row", "row", lambda row: row.row + findings.row_mark(row), attrgetter("row"), "text"
    )
    yield said("group", attrgetter("group"))
    yield Column("change", "change", change_of, attrgetter("change"), "text")
    for name, symbol in card.symbols.items():
        yield Column(CHANGED + name, symbol, partial(_cell, name), _got("cells", name), "setting")
    yield said("other", partial(other_changes, card))
    yield _plain("seeds", attrgetter("seeds"))
    yield _plain("asked", attrgetter("asked"))
    yield _written("steps", "steps", attrgetter("steps"), "{:.10g}".format, _missing_step)
    yield Column("note", "note", attrgetter("brief"), attrgetter("note"), "note")
    yield Column(
        "diverged",
        "diverged",
        lambda row: " ".join(map(str, row.diverged)),
        attrgetter("diverged"),
        "text",
    )
    for name in (*OBJECTS, *REFERRING):
        yield _plain(name, attrgetter(name))


def change_of(row: TableRow) -> str:
    return row.change if row.row != BASE else BASE


def _cell(name: str, row: TableRow) -> str:
    return cell_text(row.cells.get(name, ""))


def other_changes(card: Card, row: TableRow) -> str:
    """The changes without a column, in words; none for base, which has all cells."""
    others = (
        {}
        if row.row == BASE
        else {name: of for name, of in row.cells.items() if name not in card.symbols}
    )
    phrases = {name: card.change_phrases.get(name, f"{name} {{value}}") for name in others}
    return ", ".join(
        phrases[name].replace("{value}", cell_text(value)) for name, value in others.items()
    )


def cost_words(card: Card) -> dict[str, Callable[[float | None], str]]:
    """How each cost is written."""
    count = millions if card.millions else parameters
    costs = {"params": count, "flops": flops, "seconds": time}
    return {**costs, "cpu_seconds": time, "device_flops": flops, "mfu": percent}


def _costs(card: Card) -> Iterator[StudyColumn]:
    for name, write in cost_words(card).items():
        yield _written(name, ALL_COST_LABELS[name], attrgetter(name), write, _missing_cost)


def _missing_cost(row: TableRow) -> str:
    """Empty in a finished row whose costs are unknown; the caption says so."""
    return "" if row.seeds else row.status


def _missing_step(row: TableRow) -> str:
    return "unknown" if row.seeds else row.status


def _published(card: Card) -> Iterator[StudyColumn]:
    """A cell that was not published is empty."""
    for metric in card.tabled:
        name = metric.name
        label = metric.label
        places = metric.places
        paper = _got("published", name)
        delta = _got("published_deltas", name)
        yield _written(
            f"paper_{name}", f"paper {label}", paper, partial(number, places=places), faint=True
        )
        yield _written(
            f"paper_delta_{name}",
            f"paper Δ{label}",
            delta,
            partial(signed, places=places),
            faint=True,
        )
    yield _written(
        f"paper_{PARAMS}", "paper params ×10⁶", _got("published", PARAMS), partial(number, places=0)
    )


def _found(findings: Findings) -> Iterator[StudyColumn]:
    """What was found beyond metrics, for programs."""
    yield _plain("summary", lambda _: findings.summary)
    yield _plain(
        "unlike", lambda row: [difference.text for difference in findings.unlike.get(row.row, [])]
    )


def _best(findings: Findings) -> Iterator[StudyColumn]:
    """The best score that was reported while training, over the row's seeds, and its step: the
    first and the last."""
    if metric := findings.best_of:
        values = {
            row: metric_mean(metric, [value for value, _ in of.values()])
            for row, of in findings.best.items()
        }
        steps = {row: [step for _, step in of.values()] for row, of in findings.best.items()}

        def text(row: TableRow) -> str:
            return number(values.get(row.row), metric.places) or _unreported(row)

        def at(row: TableRow) -> str:
            return spanned(steps[row.row]) if row.row in steps else _unreported(row)

        yield Column(
            f"best_{metric.name}", f"best {metric.label}", text, lambda row: values.get(row.row)
        )
        yield Column("best_step", "at step", at, lambda row: mean(steps.get(row.row, ())))
        yield _plain("best_by_seed", lambda row: findings.best.get(row.row, {}))


def _unreported(row: TableRow) -> str:
    return NOT_REPORTED if row.seeds else row.status


def _got(field: str, name: str) -> Value:
    return lambda row: getattr(row, field).get(name)


def _written(
    name: str,
    head: str,
    value: Value,
    write: Callable[[Any], str],
    missing: Callable[[TableRow], str] = lambda _: "",
    faint: bool = False,
) -> StudyColumn:
    """A column of numbers, which shows why one is missing."""

    def text(row: TableRow) -> str:
        found = value(row)
        return missing(row) if found is None else write(found)

    return Column(name, head, text, value, missing=missing, faint=faint)


def _plain(
    name: str, value: Value, missing: Callable[[TableRow], str] = lambda _: ""
) -> StudyColumn:
    """A column that only programs have by default."""
    return _written(name, name.replace("_", " "), value, _text, missing)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
