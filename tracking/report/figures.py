"""All figures of a study, in the order of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracking.card import Card, Metric
from tracking.report.curve_figures import curve_figures
from tracking.report.curves import Curves
from tracking.report.drawing import Drawing
from tracking.report.forest import Difference, forest
from tracking.report.row_entries import Entry
from tracking.report.score_against_cost import scatters
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow


@dataclass(frozen=True)
class Figures:
    """By the part of the page where they stand."""

    differences: list[Drawing] = field(default_factory=list)
    scores: list[Drawing] = field(default_factory=list)
    curves: dict[str, list[Drawing]] = field(default_factory=dict)  # by journal name

    @property
    def all(self) -> list[Drawing]:
        return [*self.differences, *self.scores, *(figure for of in self.curves.values() for figure in of)]


def draw(card: Card, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings, curves: Curves) -> Figures:
    found = [forest(metric, differences(metric, rows, entries, findings), findings.reference) for metric in card.tabled]
    return Figures([each for each in found if each], scatters(card, rows, entries), curve_figures(curves, entries))


def differences(
    metric: Metric, rows: Sequence[TableRow], entries: Sequence[Entry], findings: Findings
) -> list[Difference]:
    """Of one metric, in the order of the table. A row without a difference is left out; the table says why."""
    return [
        _difference(metric, row, entry, findings, value)
        for row, entry in zip(rows, entries, strict=True)
        if row.row != findings.reference and (value := row.deltas[metric.name]) is not None
    ]


def _difference(metric: Metric, row: TableRow, entry: Entry, findings: Findings, value: float) -> Difference:
    mark, ends = findings.mark(row, metric), findings.interval(row, metric)
    test, said = findings.test(row, metric), findings.words(row, metric)
    kind = test.finding.kind if test else None
    return Difference(entry, value, ends, kind, mark, row.published_deltas.get(metric.name), said)
