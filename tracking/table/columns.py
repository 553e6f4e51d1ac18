"""The columns of a study's table: for each name, what a row's cell shows to people and holds for
programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from tracking.card import TESTED, Card, Metric
from tracking.statistics.means import mean, metric_mean
from tracking.statistics.references import NOT_COMPARED
from tracking.statistics.study_findings import (
    MIXED_SETTINGS,
    OTHER_SETTINGS,
    StudyFindings,
)
from tracking.statistics.table_row import BASE, TableRow
from tracking.table.device_hours import device_hours
from tracking.table.study_table import StudyTable
from tracking.table.text import Column, number_column, program_column, text_column
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
"""Columns of the report, and of tables for which they are chosen."""
OTHER_COST_LABELS = {"cpu_seconds": "CPU time", "device_hours": "device hours"}
ALL_COST_LABELS = COST_LABELS | DEVICE_COST_LABELS | OTHER_COST_LABELS
CHANGED = "changed "
"""Before the name of a change: such a column may have the name of a measurement, such as steps."""
OBJECTS = {
    "before_scaling": "before_scaling",
    "cells": "cells",
    "decode": "decode",
    "mixed_decode": "mixed_decode",
    "other_decode": "comparison.other_decode",
    "seed_values": "seed_values",
}
"""Columns that only JSON has, each with its field of the row."""
REFERRING = {
    "weights": "weights",
    "reference": "comparison.reference",
    "paired": "comparison.paired",
}
"""The row whose weights a row scores, the row from which it differs, and whether differences are
taken seed by seed: columns, each with its field of the row."""
NOT_REPORTED = "not reported"
NO_COMMON_SEED = "no common seed"
StudyColumn = Column[TableRow]
Value = Callable[[TableRow], Any]


def columns_of(table: StudyTable, plus_minus: str = " ± ") -> dict[str, StudyColumn]:
    """Every column by name. ``plus_minus`` is between a mean and its standard deviation."""
    card = table.card
    findings = table.findings
    columns = [
        *_row_columns(card, findings),
        *_cost_columns(table),
        *_published_columns(card),
        *_finding_columns(findings),
        *_best_columns(findings),
    ]
    for metric in card.tabled:
        metric_columns = _MetricColumns(metric, findings, table.view.intervals, plus_minus)
        columns += metric_columns.columns(table)
    column_of_name = {column.name: column for column in columns}
    changes = {name: column_of_name[CHANGED + name] for name in card.symbols}
    return changes | column_of_name


def seeds_of(rows: Sequence[TableRow]) -> list[int]:
    """Every finished seed of these rows, in order."""
    return sorted({seed for row in rows for seed in row.finished_seeds})


def setting_words(card: Card, settings: Mapping[str, Any]) -> list[str]:
    """The settings for scoring in the words of their task. Settings without a phrase or a value are
    left out."""
    phrases = card.setting_phrases
    words = []
    for name in dict.fromkeys(phrase.partition("=")[0] for phrase in phrases):
        value = settings.get(name)
        phrase = phrases.get(f"{name}={value}") or phrases.get(name, "")
        if value is not None and phrase:
            words.append(phrase.replace("{value}", str(value)))
    return words


@dataclass(frozen=True)
class _MetricColumns:
    """The columns of one metric."""

    metric: Metric
    findings: StudyFindings
    intervals: bool
    plus_minus: str

    def columns(self, table: StudyTable) -> Iterator[StudyColumn]:
        """The best value is the best of the shown rows."""
        yield self._score_column(table)
        yield from self._difference_columns()
        yield from self._words_and_tests()
        for seed in seeds_of(table.rows):
            yield self._seed_column(seed)

    def _score_column(self, table: StudyTable) -> StudyColumn:
        metric = self.metric
        best = ""
        if table.view.best:
            scores = [row.scores[metric.name] for row in table.rows if row.is_compared(metric)]
            best = number(metric.best(scores), metric.places)

        def is_best(row: TableRow) -> bool:
            if not best or not row.is_compared(metric):
                return False
            return number(row.scores[metric.name], metric.places) == best

        value = _field("scores", metric.name)
        return Column(
            metric.name, metric.label, self._score, value, missing=self._missing, best=is_best
        )

    def _difference_columns(self) -> Iterator[StudyColumn]:
        """Over all seeds of both rows, then over the seeds that both have."""
        name = self.metric.name
        head = f"Δ{self.metric.label}"
        delta = _field("comparison.deltas", name)
        yield Column(f"delta_{name}", head, self._delta, delta, missing=self._missing_delta)
        write = partial(signed, places=self.metric.places)
        common_delta = _field("comparison.common_deltas", name)
        common_name = f"delta_common_seeds_{name}"
        common_head = f"{head} at common seeds"
        yield number_column(common_name, common_head, common_delta, write, self._missing_delta)

    def _words_and_tests(self) -> Iterator[StudyColumn]:
        """What the tests say, the standard deviation, and the tests' numbers."""
        name = self.metric.name
        label = self.metric.label
        verdict = partial(self.findings.verdict, metric=name)
        yield text_column(f"verdict_{name}", verdict, head=f"{label}: verdict")
        finding = partial(self.findings.words, metric=self.metric)
        yield text_column(f"finding_{name}", finding, head=f"{label}: finding")
        write = partial(number, places=self.metric.decimals)
        yield number_column(f"sd_{name}", f"sd {label}", _field("sd", name), write)
        for kind in TESTED:
            yield program_column(f"{kind}_{name}", partial(self._tested, kind))

    def _seed_column(self, seed: int) -> StudyColumn:
        name = self.metric.name

        def value(row: TableRow) -> float | None:
            return row.seed_values[name].get(seed)

        def missing(row: TableRow) -> str:
            """Empty without a finished trial."""
            return "not finite" if seed in row.seed_values[name] else ""

        return program_column(f"{name}_s{seed}", value, missing)

    def _score(self, row: TableRow) -> str:
        """The mean, with the standard deviation over two seeds or more: 91.7 ± 0.4."""
        places = self.metric.places
        deviation = row.sd[self.metric.name]
        score = number(row.scores[self.metric.name], places) or self._missing(row)
        if deviation is None:
            return score
        return f"{score}{self.plus_minus}{number(deviation, places)}"

    def _delta(self, row: TableRow) -> str:
        """The difference with its mark; below it, the interval."""
        metric = self.metric
        delta = signed(row.comparison.deltas[metric.name], metric.places)
        text = self._missing_delta(row)
        if delta:
            text = f"{delta}{self.findings.mark(row, metric)}"
        interval = interval_of(row, metric, self.findings) if self.intervals else ""
        return "\n".join(filter(None, [text, interval]))

    def _missing(self, row: TableRow) -> str:
        return MIXED_SETTINGS if self.metric.decided_by(row.mixed_decode) else row.status

    def _missing_delta(self, row: TableRow) -> str:
        """A difference also needs a score of the reference with the same settings."""
        if row.scores[self.metric.name] is None:
            return self._missing(row)
        comparison = row.comparison
        if self.metric.decided_by(comparison.other_decode):
            return OTHER_SETTINGS
        if self.metric.name in comparison.not_compared:
            return NOT_COMPARED
        reference = comparison.reference or self.findings.reference
        family = self.findings.family_of(row.row, self.metric)
        mixed = f"{reference}: {MIXED_SETTINGS}"
        if family and family.rows[row.row] == mixed:
            return mixed
        if comparison.paired and comparison.reference_seeds and not row.common_seeds:
            return NO_COMMON_SEED
        return f"no {reference}"

    def _tested(self, kind: str, row: TableRow) -> float | None:
        return getattr(self.findings.test(row, self.metric), kind, None)


def interval_of(row: TableRow, metric: Metric, findings: StudyFindings) -> str:
    """Such as [−1.2, −0.3]; empty without a test."""
    ends = findings.interval(row, metric)
    if ends is None:
        return ""
    low, high = ends
    return f"[{signed(low, metric.places)}, {signed(high, metric.places)}]"


def _row_columns(card: Card, findings: StudyFindings) -> Iterator[StudyColumn]:
    """What the row is, and how much of it is finished."""

    def marked_name(row: TableRow) -> str:
        return row.row + findings.row_mark(row)

    def diverged(row: TableRow) -> str:
        return " ".join(map(str, row.diverged))

    yield Column("row", "row", marked_name, attrgetter("row"), "text")
    yield text_column("group", attrgetter("group"))
    yield Column("change", "change", change_of, attrgetter("change"), "text")
    for name, symbol in card.symbols.items():
        value = _field("cells", name)
        yield Column(CHANGED + name, symbol, partial(_cell, name), value, "setting")
    yield text_column("other", partial(other_changes, card))
    yield program_column("seeds", attrgetter("seeds"))
    yield program_column("asked", attrgetter("asked"))
    yield number_column("steps", "steps", attrgetter("steps"), "{:.10g}".format, _missing_step)
    brief_note = attrgetter("notes.brief")
    yield Column("note", "note", brief_note, attrgetter("notes.full"), "note")
    yield Column("diverged", "diverged", diverged, attrgetter("diverged"), "text")
    for name, field in (OBJECTS | REFERRING).items():
        yield program_column(name, attrgetter(field))


def change_of(row: TableRow) -> str:
    return row.change if row.row != BASE else BASE


def _cell(name: str, row: TableRow) -> str:
    return cell_text(row.cells.get(name, ""))


def other_changes(card: Card, row: TableRow) -> str:
    """The changes without a column, in words; none for base, which has all cells."""
    if row.row == BASE:
        return ""
    changes = []
    for name, value in row.cells.items():
        if name not in card.symbols:
            phrase = card.change_phrases.get(name, f"{name} {{value}}")
            changes.append(phrase.replace("{value}", cell_text(value)))
    return ", ".join(changes)


def cost_words(card: Card) -> dict[str, Callable[[float | None], str]]:
    """How each cost is written."""
    count = millions if card.millions else parameters
    costs = {"params": count, "flops": flops, "seconds": time}
    return {**costs, "cpu_seconds": time, "device_flops": flops, "mfu": percent}


def _cost_columns(table: StudyTable) -> Iterator[StudyColumn]:
    for name, write in cost_words(table.card).items():
        cost = attrgetter(f"costs.{name}")
        yield number_column(name, ALL_COST_LABELS[name], cost, write, _missing_cost)
    name = "device_hours"
    hours = partial(device_hours, table.study)
    yield number_column(name, ALL_COST_LABELS[name], hours, "{:.3g}".format, _missing_cost)


def _missing_cost(row: TableRow) -> str:
    """Empty in a finished row whose costs are unknown; the caption says so."""
    return "" if row.seeds else row.status


def _missing_step(row: TableRow) -> str:
    return "unknown" if row.seeds else row.status


def _published_columns(card: Card) -> Iterator[StudyColumn]:
    """A cell that was not published is empty."""
    for metric in card.tabled:
        name = metric.name
        label = metric.label
        value = _field("published", name)
        write = partial(number, places=metric.places)
        yield number_column(f"paper_{name}", f"paper {label}", value, write, faint=True)
        delta = _field("comparison.published_deltas", name)
        write_delta = partial(signed, places=metric.places)
        yield number_column(
            f"paper_delta_{name}", f"paper Δ{label}", delta, write_delta, faint=True
        )
    params = _field("published", PARAMS)
    yield number_column(f"paper_{PARAMS}", "paper params ×10⁶", params, partial(number, places=0))


def _finding_columns(findings: StudyFindings) -> Iterator[StudyColumn]:
    """Findings that belong to no metric, for programs."""

    def unlike_texts(row: TableRow) -> list[str]:
        return [difference.text for difference in findings.unlike.get(row.row, [])]

    yield program_column("summary", lambda _: findings.summary)
    yield program_column("unlike", unlike_texts)


def _best_columns(findings: StudyFindings) -> Iterator[StudyColumn]:
    """The best score that was reported during training, over the row's seeds, and its step: the
    first and the last."""
    metric = findings.best_of
    if metric is None:
        return
    values = dict[str, float | None]()
    steps = dict[str, list[int]]()
    for name, best_of_seed in findings.best.items():
        values[name] = metric_mean(metric, [value for value, _ in best_of_seed.values()])
        steps[name] = [step for _, step in best_of_seed.values()]

    def text(row: TableRow) -> str:
        return number(values.get(row.row), metric.places) or _unreported(row)

    def step_text(row: TableRow) -> str:
        return spanned(steps[row.row]) if row.row in steps else _unreported(row)

    def value(row: TableRow) -> float | None:
        return values.get(row.row)

    def mean_step(row: TableRow) -> float | None:
        return mean(steps.get(row.row, ()))

    yield Column(f"best_{metric.name}", f"best {metric.label}", text, value)
    yield Column("best_step", "at step", step_text, mean_step)
    yield program_column("best_by_seed", lambda row: findings.best.get(row.row, {}))


def _unreported(row: TableRow) -> str:
    return NOT_REPORTED if row.seeds else row.status


def _field(field: str, name: str) -> Value:
    """The value of this name in a field of the row, such as ``comparison.deltas``."""
    values_of = attrgetter(field)
    return lambda row: values_of(row).get(name)
