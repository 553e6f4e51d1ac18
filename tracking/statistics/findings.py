"""What a study's table says beyond its means: the tests over seeds and over samples, rows that are not alike, and the
best reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tracking.card import Card, Metric
from tracking.statistics.best_report import BestReport, best_reports
from tracking.statistics.later_seeds import later_seeds
from tracking.statistics.rows import TableRow
from tracking.statistics.sentence_tests import SentenceTest, SentenceTests, sentence_tests
from tracking.statistics.unlike import Unlike, unlike
from tracking.study import Study

if TYPE_CHECKING:
    from tracking.statistics.seed_findings import SeedFindings
    from tracking.statistics.seed_tests import RowTest
    from tracking.statistics.verdict import MetricVerdict

LEVEL = 0.05
OF_SAMPLES = "°"
"""The mark of a difference that only the samples of one seed show."""
MARKS = ("*", "†", OF_SAMPLES)
"""Behind a difference."""
UNLIKE = "‡"
"""The mark of a row that differs from the others in more than its change."""
STOPPED = "§"
"""The mark of a row with a seed whose training ended before its steps."""


@dataclass(frozen=True)
class Findings:
    """Of one reference row. Metrics are by name. Empty: nothing was looked for."""

    reference: str = "base"
    seeds: dict[str, "SeedFindings"] = field(default_factory=dict)
    samples: dict[str, SentenceTests] = field(default_factory=dict)
    unlike: dict[str, list[Unlike]] = field(default_factory=dict)  # by row
    best: dict[str, BestReport] = field(default_factory=dict)  # by row, of the metric `best_of`
    best_of: Metric | None = None
    later_seeds: str = ""  # what is to say of seeds that were added after first results
    verdicts: dict[str, "MetricVerdict"] = field(default_factory=dict)  # only of metrics with published values

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        found = self.seeds.get(metric.name)
        return found.tests.get(row.row) if found else None

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
        return OF_SAMPLES if of_samples and of_samples.p_holm <= LEVEL else ""

    def interval(self, row: TableRow, metric: Metric) -> tuple[float, float] | None:
        """95 %: over seeds if they are tested, otherwise over the samples of the one seed."""
        found = self.test(row, metric) or self.sample_test(row, metric)
        return (found.low, found.high) if found else None

    def row_mark(self, row: TableRow) -> str:
        """Behind its name."""
        return UNLIKE * bool(self.unlike.get(row.row)) + STOPPED * bool(row.stopped)


NONE = Findings()


def find(study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None) -> Findings:
    """Everything for all rows of the study, whatever is shown. With ``reports_of``, the best reports, too."""
    from tracking.statistics.seed_findings import seed_findings  # NumPy, which a plan does not need

    card = study.task
    seeds = {metric.name: found for metric in card.tabled if (found := seed_findings(study, metric, rows, reference))}
    samples = {metric.name: sentence_tests(study, metric, reference) for metric in card.tabled if metric.from_counts}
    best = best_reports(study, reports_of) if reports_of else {}
    return Findings(reference, seeds, samples, unlike(study), best, reports_of, later_seeds(study).text)


def with_verdicts(findings: Findings, card: Card, rows: Sequence[TableRow]) -> Findings:
    """Our differences against the published ones, for all rows of the study."""
    from tracking.statistics.verdict import verdict

    verdicts: dict[str, MetricVerdict] = {}
    for metric in card.tabled:
        published = {row.row: row.published[metric.name] for row in rows}
        if metric.name in findings.seeds and (given := verdict(metric, findings.seeds[metric.name].family, published)):
            verdicts[metric.name] = given
    return replace(findings, verdicts=verdicts)


def with_tested(rows: Sequence[TableRow], card: Card, findings: Findings) -> list[TableRow]:
    """The rows with the differences that were tested: over all seeds of both rows."""
    return [_with_tested(row, card, findings) for row in rows]


def _with_tested(row: TableRow, card: Card, findings: Findings) -> TableRow:
    tested = {each.name: test.difference for each in card.tabled if (test := findings.test(row, each))}
    if not tested or (tuple(sorted(row.delta_seeds)) == tuple(sorted(_seeds(row))) and "Δ over" not in row.note):
        return row
    deltas: dict[str, float | None] = {name: round(value, 9) for name, value in tested.items()}
    if not all(name in tested for name, value in row.deltas.items() if value is not None):
        return replace(row, deltas=row.deltas | deltas)  # the others are over the seeds that the note names
    note = "; ".join(part for part in row.note.split("; ") if not part.startswith("Δ over"))
    return replace(row, deltas=row.deltas | deltas, delta_seeds=_seeds(row), note=note)


def _seeds(row: TableRow) -> tuple[int, ...]:
    return tuple(next(iter(row.seed_values.values()), {}))
