"""What a study's table says beyond its means: the tests over seeds and over samples, rows that are not alike, and the
best reports. As marks and words for people, and as fields for programs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tracking.card import Card, Metric
from tracking.statistics.finding import MARKS as OF_SEEDS
from tracking.statistics.rows import TableRow
from tracking.statistics.seeds import BestReport, best_reports, later_note
from tracking.statistics.unlike_trials import Unlike, unlike
from tracking.study import Study

if TYPE_CHECKING:
    from tracking.statistics.bootstrap import SampleTest, SampleTests
    from tracking.statistics.family import Family, RowTest
    from tracking.statistics.verdict import MetricVerdict

OF_SAMPLES = "°"
"""The mark of a difference that only the samples of one seed show."""
MARKS = (*OF_SEEDS.values(), OF_SAMPLES)
"""Behind a difference."""
UNLIKE = "‡"
"""The mark of a row that differs from the others in more than its change."""
STOPPED = "§"
"""The mark of a row with a seed whose training ended before its steps."""
OTHER_SETTINGS, MIXED_SETTINGS = "other settings", "mixed settings"
"""For scoring: of a row unlike the reference, and of seeds unlike each other."""


@dataclass(frozen=True)
class Findings:
    """Of one reference row. Metrics are by name. Empty: nothing was looked for."""

    reference: str = "base"
    families: dict[str, "Family"] = field(default_factory=dict)  # over seeds
    samples: dict[str, "SampleTests"] = field(default_factory=dict)  # only where they were asked for
    only_seed: int | None = None  # of the reference; None if it has several
    unlike: dict[str, list[Unlike]] = field(default_factory=dict)  # by row
    best: dict[str, BestReport] = field(default_factory=dict)  # by row, of the metric `best_of`
    best_of: Metric | None = None
    later_seeds: str = ""  # what is to say of seeds that were added after first results
    verdicts: dict[str, "MetricVerdict"] = field(default_factory=dict)  # only of metrics with published values

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        found = self.families.get(metric.name)
        return found.tests.get(row.row) if found else None

    def sample_test(self, row: TableRow, metric: Metric) -> "SampleTest | None":
        """The test over samples, where it is all that can be said, and of this very difference: where the row and the
        reference have one seed, and the same."""
        found = self.samples.get(metric.name)
        if found is None or self.only_seed is None:
            return None
        alone = not row.diverged and [*row.seed_values[metric.name]] == [self.only_seed]
        return found.tests.get(row.row, {}).get(self.only_seed) if alone else None

    def mark(self, row: TableRow, metric: Metric) -> str:
        """Of the finding over seeds; ``°`` over samples, where there is no test over seeds."""
        if test := self.test(row, metric):
            return test.finding.mark
        of_samples = self.sample_test(row, metric)
        return OF_SAMPLES if of_samples and of_samples.marked else ""

    def interval(self, row: TableRow, metric: Metric) -> tuple[float, float] | None:
        """95 %: over seeds if they are tested, otherwise over the samples of the one seed."""
        found = self.test(row, metric) or self.sample_test(row, metric)
        return (found.low, found.high) if found else None

    def row_mark(self, row: TableRow) -> str:
        """Behind its name."""
        return UNLIKE * bool(self.unlike.get(row.row)) + STOPPED * bool(row.stopped)

    def words(self, row: TableRow, metric: Metric) -> str:
        """The finding as a sentence, or "not tested: …"; empty where nothing was looked for."""
        family = self.families.get(metric.name)
        if family is None:
            return ""
        if row.row == self.reference:
            return "reference"
        test, why = family.tests.get(row.row), family.untested.get(row.row, "")
        return test.finding.text if test else f"not tested: {why}" if why else "not tested"

    def verdict(self, row: TableRow, metric: str) -> str:
        """Against the published difference; empty without one."""
        given = self.verdicts[metric].rows.get(row.row) if metric in self.verdicts else None
        return given.text if given else ""


NONE = Findings()


def find(
    study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None, sentences: bool = False
) -> Findings:
    """Everything for all rows of the study, whatever is shown. With ``reports_of``, the best reports, too; with
    ``sentences``, the tests over samples."""
    found = {metric.name: _family(study, rows, reference, metric) for metric in study.task.tabled}
    families = {name: family for name, family in found.items() if family}
    best = best_reports(study, reports_of) if reports_of else {}
    samples = _over_samples(study, reference) if sentences else {}
    alone = [row.seed_values for row in rows if row.row == reference and row.seeds == 1]
    only = next((seed for values in alone for of in values.values() for seed in of), None)
    return Findings(reference, families, samples, only, unlike(study), best, reports_of, later_note(study))


def _family(study: Study, rows: Sequence[TableRow], reference: str, metric: Metric) -> "Family | None":
    """Over seeds, of the rows whose settings for scoring are those of the reference."""
    from tracking.statistics.family import Family, family  # SciPy takes a third of a second, which a plan does not need

    comparable = [row for row in rows if not metric.decided_by((*row.mixed_decode, *row.other_decode))]
    others = {row.row: OTHER_SETTINGS for row in rows if row not in comparable}
    if reference in others:
        why = f"{reference}: {MIXED_SETTINGS}"
        return Family(metric, reference, untested={row.row: why for row in rows if row.row != reference})
    values = {row.row: metric.tested_values(row.seed_values[metric.name]) for row in comparable}
    diverged = {row.row: row.diverged for row in comparable}
    seconds, margin = {row.row: row.seconds for row in rows}, study.margins.get(metric.name)
    made = family(metric, values, reference, diverged, seconds, margin)
    return replace(made, untested=made.untested | others) if made else None


def _over_samples(study: Study, reference: str) -> dict[str, "SampleTests"]:
    from tracking.statistics.bootstrap import sample_tests

    counted = [metric for metric in study.task.tabled if metric.from_counts]
    return {metric.name: sample_tests(study, metric, reference) for metric in counted}


def with_verdicts(findings: Findings, card: Card, rows: Sequence[TableRow]) -> Findings:
    """Our differences against the published ones, for all rows of the study."""
    from tracking.statistics.verdict import verdict

    verdicts: dict[str, MetricVerdict] = {}
    for metric in card.tabled:
        published = {row.row: row.published[metric.name] for row in rows}
        if metric.name in findings.families and (given := verdict(findings.families[metric.name], published)):
            verdicts[metric.name] = given
    return replace(findings, verdicts=verdicts)


def sample_fields(findings: Findings, row: TableRow) -> dict[str, Any]:
    """The tests over samples, as JSON has them: by metric and seed the numbers, or why there are none."""
    fields: dict[str, Any] = {}
    for name, found in findings.samples.items():
        tests = {seed: asdict(test) for seed, test in found.tests.get(row.row, {}).items()}
        fields[name] = {str(seed): of for seed, of in sorted({**tests, **found.untested.get(row.row, {})}.items())}
    return fields
