"""What a study's table says beyond its means: the tests over seeds and over samples, rows that are not alike, and the
best reports."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tracking.best_report import BestReport, best_reports
from tracking.card import Card
from tracking.metrics import Metric
from tracking.rows import TableRow
from tracking.sentence_tests import SentenceTest, SentenceTests, sentence_tests
from tracking.study import Study

if TYPE_CHECKING:
    from tracking.seed_tests import Family, RowTest  # NumPy, which a plan does not need

OF_SAMPLES = "°"
"""The mark of a difference that only the samples of one seed show."""
UNLIKE = "‡"
"""The mark of a row that differs from the others in more than its change."""


@dataclass(frozen=True)
class Findings:
    """Of one reference row. Metrics are by name. Empty: nothing was looked for."""

    reference: str = "base"
    families: dict[str, "Family"] = field(default_factory=dict)  # of a metric that is e^ of another: in its logarithm
    tests: dict[str, dict[str, "RowTest"]] = field(default_factory=dict)  # by metric and row, in the metric's own units
    samples: dict[str, SentenceTests] = field(default_factory=dict)
    unlike: dict[str, list[str]] = field(default_factory=dict)  # by row, what differs
    best: dict[str, BestReport] = field(default_factory=dict)  # by row, of the metric `best_of`
    best_of: Metric | None = None

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        return self.tests.get(metric.name, {}).get(row.row)

    def sample_test(self, row: TableRow, metric: Metric) -> SentenceTest | None:
        """The test over samples, where it is all that can be said: where the difference is over one seed."""
        found = self.samples.get(metric.name)
        if found is None or len(row.delta_seeds) != 1 or self.test(row, metric):
            return None
        return found.tests.get(row.row, {}).get(row.delta_seeds[0])

    def mark(self, row: TableRow, metric: Metric) -> str:
        """``*`` or ``†`` by a test over seeds; ``°`` over samples, where there is no test over seeds."""
        if test := self.test(row, metric):
            return test.mark
        of_samples = self.sample_test(row, metric)
        return OF_SAMPLES if of_samples and of_samples.p_holm <= 0.05 else ""

    def interval(self, row: TableRow, metric: Metric) -> tuple[float, float] | None:
        """95 %: over seeds if they are tested, otherwise over the samples of the one seed."""
        found = self.test(row, metric) or self.sample_test(row, metric)
        return (found.low, found.high) if found else None

    def row_mark(self, row: TableRow) -> str:
        return UNLIKE if self.unlike.get(row.row) else ""


NONE = Findings()


def find(study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None) -> Findings:
    """Everything for all rows of the study, whatever is shown. With ``reports_of``, the best reports, too."""
    card = study.task
    families = {metric.name: found for metric in card.tabled if (found := _family(card, rows, metric, reference))}
    samples = {metric.name: sentence_tests(study, metric, reference) for metric in card.tabled if metric.from_counts}
    best = best_reports(study, reports_of) if reports_of else {}
    tests = {metric.name: _tests(metric, families.get(metric.name)) for metric in card.tabled}
    return Findings(reference, families, tests, samples, best=best, best_of=reports_of)


def with_tested(rows: Sequence[TableRow], card: Card, findings: Findings) -> list[TableRow]:
    """The rows with the differences that were tested: over all seeds of both rows."""
    return [_with_tested(row, card, findings) for row in rows]


def _with_tested(row: TableRow, card: Card, findings: Findings) -> TableRow:
    tested = {each.name: test.difference for each in card.tabled if (test := findings.test(row, each))}
    if not tested or (tuple(sorted(row.delta_seeds)) == tuple(sorted(_seeds(row))) and "Δ over" not in row.note):
        return row
    deltas = {name: round(value, 9) for name, value in tested.items()}
    note = "; ".join(part for part in row.note.split("; ") if not part.startswith("Δ over"))
    return replace(row, deltas=row.deltas | deltas, delta_seeds=_seeds(row), note=note)


def _seeds(row: TableRow) -> tuple[int, ...]:
    return tuple(next(iter(row.seed_values.values()), {}))


def _family(card: Card, rows: Sequence[TableRow], metric: Metric, reference: str) -> "Family | None":
    """Rows whose scores cannot be compared are not tested."""
    from tracking.seed_tests import family

    comparable = [row for row in rows if not metric.decided_by((*row.mixed_decode, *row.other_decode))]
    found = family({row.row: _scale(metric, row.seed_values[metric.name]) for row in comparable}, reference)
    if found is None:
        return None
    reasons = {row.row: f"other {card.settings_name}" for row in rows if row not in comparable}
    return replace(found, untested=found.untested | reasons)


def _scale(metric: Metric, values: Mapping[int, float | None]) -> Mapping[int, float | None]:
    """A metric that is e^ of another one is tested as that one."""
    if metric.exp_of is None:
        return values
    return {seed: math.log(value) if value is not None and value > 0 else None for seed, value in values.items()}


def _tests(metric: Metric, found: "Family | None") -> dict[str, "RowTest"]:
    if found is None or metric.exp_of is None:
        return found.tests if found else {}
    from tracking.seed_tests import exponential

    return exponential(found)
