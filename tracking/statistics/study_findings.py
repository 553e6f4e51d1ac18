"""What a study's table says beyond its means: the tests over seeds, rows that are not alike, and
the best reports. As marks and words for people, and as fields for programs."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from tracking.activity.later_changes import later_note
from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, in_line
from tracking.statistics.machine_blocks import MachineBlocks, machine_blocks
from tracking.statistics.seeds.finding import FINDING_WORDS, phrase, same_scores
from tracking.statistics.table_row import TableRow
from tracking.statistics.unlike_trials import Unlike, differ_by_machine, unlike
from tracking.study import Study
from tracking.words import count_of, grouped, spanned

if TYPE_CHECKING:
    from tracking.statistics.seeds.family import Family, RowTest
    from tracking.statistics.verdict import MetricVerdict

BestReports = dict[str, dict[int, tuple[float, int]]]
"""Row -> seed -> the best value that was reported while training, and the first step that has
it."""
UNLIKE = "‡"
"""The mark of a row that differs from the others beyond its change."""
STOPPED = "§"
"""The mark of a row with a seed whose training ended before its steps."""
OTHER_SETTINGS = "other settings"
"""For scoring, unlike the reference's."""
MIXED_SETTINGS = "mixed settings"
"""For scoring, unlike between seeds."""
UNFINISHED = {"no seed": "no finished seed"}
"""Reasons of a test in other words."""
MOST_REASONS = 2


@dataclass(frozen=True)
class StudyFindings:
    """Empty: nothing was tested.

    ``families`` are by metric. Those of trained rows come first: that of the study's ``reference``,
    then one for each other row that rows name as theirs. One for each row whose weights other rows
    score follows. ``published`` values are by metric and row.
    """

    reference: str = "base"
    families: dict[str, tuple["Family", ...]] = field(default_factory=dict)
    unlike: dict[str, list[Unlike]] = field(default_factory=dict)  # by row
    best: BestReports = field(default_factory=dict)
    best_of: Metric | None = None  # the metric of these
    later_seeds: str = ""  # a note on seeds that were added after first results
    blocks: MachineBlocks = field(default_factory=MachineBlocks)
    published: dict[str, dict[str, float | None]] = field(default_factory=dict)

    @cached_property
    def summary(self) -> str:
        """What all rows show, in one line; empty if nothing was tested."""
        families = [family for of_metric in self.families.values() for family in of_metric]
        return findings_line(families, self.reference)

    @cached_property
    def verdicts(self) -> dict[str, "MetricVerdict"]:
        """Our differences against the published ones, only of metrics with published values."""
        from tracking.statistics.verdict import verdict

        verdicts: dict[str, MetricVerdict] = {}
        for name, published in self.published.items():
            metric_verdict = verdict(self.trained_families(name), published)
            if metric_verdict is not None:
                verdicts[name] = metric_verdict
        return verdicts

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        test = self._test_or_reason(row, metric)
        return None if isinstance(test, str) else test

    def families_of(self, metric: Metric) -> "tuple[Family, ...]":
        return self.families.get(metric.name, ())

    def trained_families(self, metric_name: str) -> "list[Family]":
        """Without those of rows that only score."""
        families = self.families.get(metric_name, ())
        return [family for family in families if not family.shares_weights]

    def family_of(self, row: str, metric: Metric) -> "Family | None":
        """The family in which this row is compared."""
        return next((family for family in self.families_of(metric) if row in family.rows), None)

    def _test_or_reason(self, row: TableRow, metric: Metric) -> "RowTest | str":
        """Why there is no test, if there is none; empty if nothing was tested."""
        family = self.family_of(row.row, metric)
        return family.rows[row.row] if family else ""

    def mark(self, row: TableRow, metric: Metric) -> str:
        """Of the finding over seeds; empty without a test."""
        test = self.test(row, metric)
        return test.finding.mark if test else ""

    def interval(self, row: TableRow, metric: Metric) -> tuple[float, float] | None:
        """95 %, over seeds; None without a test."""
        test = self.test(row, metric)
        return (test.low, test.high) if test else None

    def row_mark(self, row: TableRow) -> str:
        """Behind the row's name."""
        mark = ""
        if self.unlike.get(row.row):
            mark += UNLIKE
        if row.stopped:
            mark += STOPPED
        return mark

    def words(self, row: TableRow, metric: Metric) -> str:
        """The finding as a sentence, or "not tested: …"; empty if nothing was tested."""
        if not self.families_of(metric):
            return ""
        if row.row == self.reference:
            return "reference"
        test = self._test_or_reason(row, metric)
        return f"not tested: {test}" if isinstance(test, str) else test.finding.text

    def verdict(self, row: TableRow, metric: str) -> str:
        """Against the published difference; empty without one."""
        if metric not in self.verdicts:
            return ""
        return self.verdicts[metric].rows.get(row.row, "")

    def withheld(self, reason: str) -> "StudyFindings":
        """The same without a test: ``reason`` replaces it. Reasons of rows without a test stay."""
        families = dict[str, tuple["Family", ...]]()
        for name, metric_families in self.families.items():
            families[name] = tuple(family.withheld(reason) for family in metric_families)
        return replace(self, families=families, blocks=MachineBlocks())


NONE = StudyFindings()


def find(
    study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None
) -> StudyFindings:
    """Everything for all rows of the study, even if a table shows fewer. With ``reports_of``, also
    the best reports."""
    published = dict[str, dict[str, float | None]]()
    for metric in study.task.tabled:
        published[metric.name] = {row.row: row.published[metric.name] for row in rows}
    tested = over_seeds(study, rows, reference)
    unlike_rows = unlike(study)
    blocks = MachineBlocks()
    if differ_by_machine(unlike_rows):
        blocks = machine_blocks(study, rows, tested.families)
    return replace(
        tested,
        unlike=unlike_rows,
        blocks=blocks,
        best=_best_reports(study, reports_of) if reports_of else {},
        best_of=reports_of,
        later_seeds=later_note(study),
        published=published,
    )


def over_seeds(study: Study, rows: Sequence[TableRow], reference: str) -> StudyFindings:
    """Only the tests over seeds."""
    trained = [row for row in rows if not row.comparison.shares_weights]
    scoring_rows = [row for row in rows if row.comparison.shares_weights]
    families: dict[str, tuple[Family, ...]] = {}
    for metric in study.task.tabled:
        of_reference = _families(study, trained, rows, metric, study.paired)
        own_family = of_reference.pop(reference, _without_rows(rows, reference, metric))
        families[metric.name] = (
            *filter(None, [own_family]),
            *of_reference.values(),
            *_scoring_families(study, scoring_rows, rows, metric),
        )
    return StudyFindings(reference, families)


def _without_rows(rows: Sequence[TableRow], reference: str, metric: Metric) -> "Family | None":
    """The family of a reference with which no row is compared; None if it is no row."""
    from tracking.statistics.seeds.family import Family

    is_row = any(row.row == reference for row in rows)
    return Family(metric, reference, {}) if is_row else None


def _scoring_families(
    study: Study, scoring_rows: Sequence[TableRow], rows: Sequence[TableRow], metric: Metric
) -> Iterator["Family"]:
    """Of the rows that share weights with their reference, one family per reference. Each is tested
    by itself."""
    for reference in dict.fromkeys(row.comparison.reference for row in scoring_rows):
        members = [row for row in scoring_rows if row.comparison.reference == reference]
        for family in _families(study, members, rows, metric, paired=True).values():
            yield replace(family, shares_weights=True)


def _families(
    study: Study,
    compared: Sequence[TableRow],
    rows: Sequence[TableRow],
    metric: Metric,
    paired: bool,
) -> dict[str, "Family"]:
    """By reference, the tests over seeds of the rows that are ``compared`` with one of all
    ``rows``. A row whose scores cannot be compared is not tested."""
    # SciPy takes a third of a second to import, and a plan does not need it.
    from tracking.statistics.seeds.family import Family, SeedScores, families_of
    from tracking.statistics.seeds.paired_family import paired_families

    names = {row.row for row in rows}
    references = dict[str, str]()
    for row in compared:
        if row.row != row.comparison.reference and row.comparison.reference in names:
            references[row.row] = row.comparison.reference
    reasons = _reasons_without_test(references, rows, metric)
    test = paired_families if paired else families_of
    scores = SeedScores(
        metric,
        {row.row: metric.tested_values(row.seed_values[metric.name]) for row in rows},
        {row.row: row.diverged for row in rows},
        {row.row: row.costs.seconds for row in rows},
        study.margins.get(metric.name),
    )
    tested = {row: reference for row, reference in references.items() if row not in reasons}
    families = test(scores, tested)
    for row_name, reason in reasons.items():
        reference = references[row_name]
        family = families.get(reference, Family(metric, reference, {}))
        families[reference] = replace(family, rows=family.rows | {row_name: reason})
    return families


def _reasons_without_test(
    references: Mapping[str, str], rows: Sequence[TableRow], metric: Metric
) -> dict[str, str]:
    """Of the rows whose scores, or those of their reference, cannot be compared."""
    row_of_name = {row.row: row for row in rows}
    reasons = dict[str, str]()
    for name, reference in references.items():
        if metric.decided_by(row_of_name[reference].mixed_decode):
            reasons[name] = f"{reference}: {MIXED_SETTINGS}"
        elif reason := _why_left_out(row_of_name[name], metric):
            reasons[name] = reason
    return reasons


def _why_left_out(row: TableRow, metric: Metric) -> str:
    """Why a row is outside of the family; empty if its scores can be compared."""
    if metric.decided_by((*row.mixed_decode, *row.comparison.other_decode)):
        return OTHER_SETTINGS
    return row.comparison.not_compared.get(metric.name, "")


def _best_reports(study: Study, metric: Metric) -> BestReports:
    """A trial that does not count, or that reported no such value, is left out."""
    reports: BestReports = {}
    for standing in study.standings():
        if standing.counted is not None:
            trial = standing.trial
            journal = study.trial_folder(trial).journal_path
            best = unless_damaged(partial(_best_report, journal, metric), None)
            if best is not None:
                reports.setdefault(trial.row, {})[trial.seed] = best
    return reports


def _best_report(journal: Path, metric: Metric) -> tuple[float, int] | None:
    """Only reports of the metric on its set are parsed."""
    point = f"{metric.set}/{metric.name}"
    newest_first = [*Journal(journal).newest_first(holding=in_line(point))]
    values_and_steps = [
        (report.metrics[point], report.step)
        for report in reversed(newest_first)
        if point in report.metrics
    ]
    best = metric.best(value for value, _ in values_and_steps)
    return next(((value, step) for value, step in values_and_steps if value == best), None)


def findings_line(families: Sequence["Family"], reference: str) -> str:
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.01, 9 undecided (3 seeds)".

    If metrics say different things, each is behind its label. Rows that name their own reference
    follow: "Against wide: 1 row undecided (3 seeds)". Then rows that score the weights of one row:
    "With base's weights: 1 row worse than base (3 seeds)". The families are those of all metrics.
    Empty without a row to compare.
    """
    trained = [family for family in families if not family.shares_weights]
    scoring = [family for family in families if family.shares_weights]
    trained_of: dict[str, list[Family]] = {reference: []} | grouped_by_reference(trained)
    parts = [_metrics_line(trained_of.pop(reference))]
    for other_reference, other_families in trained_of.items():
        parts.append(_metrics_line(other_families, f"against {other_reference}"))
    for host, host_families in grouped_by_reference(scoring).items():
        changed = [family for family in host_families if not _scores_like_host(family)]
        is_of_some = 0 < len(changed) < len(host_families)
        parts.append(_metrics_line(changed or host_families, f"with {host}'s weights", is_of_some))
    return ". ".join(filter(None, parts))


def grouped_by_reference(families: Iterable["Family"]) -> dict[str, list["Family"]]:
    """The families by what their rows are compared with."""
    return grouped((family.reference, family) for family in families)


def _scores_like_host(family: "Family") -> bool:
    """Whether no row changes this metric, as a beam changes no perplexity."""
    return all(reason == same_scores(family.reference) for reason in family.rows.values())


def _metrics_line(families: Sequence["Family"], whose: str = "", is_of_some: bool = False) -> str:
    """Of one family per metric. A text that all metrics share appears once, unless these are only
    some of the metrics."""
    compared = [family for family in families if family.rows]
    texts = [_family_text(family) for family in compared]
    if not texts:
        return ""
    if len(set(texts)) == 1 and not is_of_some:
        return f"{whose[0].upper()}{whose[1:]}: {texts[0]}" if whose else texts[0]
    labels = Counter(family.metric.label for family in compared)
    labeled_texts = []
    for family, text in zip(compared, texts, strict=True):
        metric = family.metric
        label = metric.label if labels[metric.label] == 1 else f"{metric.label} on {metric.set}"
        if whose:
            label += f" {whose}"
        labeled_texts.append(f"{label}: {text}")
    return "; ".join(labeled_texts)


def _family_text(family: "Family") -> str:
    """Such as "2 rows better than base, 5 worse (3 seeds), 1 not tested (1 seed)"."""
    (number, words), *others = [*_tested_parts(family), *_untested_parts(family)]
    first = f"{count_of(number, 'row')} {words}"
    return ", ".join([first, *(f"{count} {text}" for count, text in others)])


def _tested_parts(family: "Family") -> list[tuple[int, str]]:
    """Such as 2 "better than base" and 5 "worse (3 seeds)": one for each kind that any row has."""
    rows = Counter(test.finding.kind for test in family.tests.values())
    kinds = [kind for kind in FINDING_WORDS if rows[kind]]
    if not kinds:
        return []
    margin = "" if family.margin is None else f"{family.margin:g} {family.metric.label}"
    seeds = spanned({family.seeds[row] for row in family.tests})
    parts = []
    for kind in kinds:
        reference = family.reference if kind == kinds[0] else ""
        words = phrase(kind, reference, margin)
        seed_words = f" ({seeds} seeds)" if kind == kinds[-1] else ""
        parts.append((rows[kind], f"{words}{seed_words}"))
    return parts


def _untested_parts(family: "Family") -> list[tuple[int, str]]:
    """Such as 19 "not tested (1 seed)"; more than a few reasons are left to the caption."""
    reasons = [reason for reason in family.rows.values() if isinstance(reason, str)]
    rows = Counter(UNFINISHED.get(reason, reason) for reason in reasons)
    if len(rows) > MOST_REASONS:
        return [(len(reasons), "not tested")]
    return [(number, f"not tested ({reason})") for reason, number in rows.items()]
