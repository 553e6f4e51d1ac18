"""What a study's table says beyond its means: the tests over seeds, rows that are not alike, and
the best reports. As marks and words for people, and as fields for programs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, in_line
from tracking.statistics.finding import FindingKind, same_scores
from tracking.statistics.table_rows import TableRow
from tracking.statistics.unlike_trials import Unlike, unlike
from tracking.study import Study, seconds
from tracking.words import spanned

if TYPE_CHECKING:
    from tracking.statistics.family import Family, RowTest
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

PHRASES: dict[FindingKind, str] = {
    "better by": "better{than} by at least {margin}",
    "better": "better{than}",
    "worse": "worse{than}",
    "worse within": "worse{than} by less than {margin}",
    "no worse": "no worse than {margin}",
    "undecided": "undecided",
}
UNFINISHED = {"no seed": "no finished seed"}
"""Reasons of a test in other words."""
MOST_REASONS = 2


@dataclass(frozen=True)
class StudyFindings:
    """Of one reference row. Empty: nothing was tested.

    ``families`` are of trained rows; those of ``scoring`` each hold the rows that score one row's
    weights. Both are by metric, and so are ``published`` values: metric -> row -> value.
    """

    reference: str = "base"
    families: dict[str, "Family"] = field(default_factory=dict)
    scoring: dict[str, tuple["Family", ...]] = field(default_factory=dict)
    unlike: dict[str, list[Unlike]] = field(default_factory=dict)  # by row
    best: BestReports = field(default_factory=dict)
    best_of: Metric | None = None  # the metric of these
    later_seeds: str = ""  # a note on seeds that were added after first results
    published: dict[str, dict[str, float | None]] = field(default_factory=dict)

    @cached_property
    def summary(self) -> str:
        """What all rows show, in one line; empty if nothing was tested."""
        return findings_line(self.families, self.scoring)

    @cached_property
    def verdicts(self) -> dict[str, "MetricVerdict"]:
        """Our differences against the published ones, only of metrics with published values."""
        from tracking.statistics.verdict import verdict

        verdicts: dict[str, MetricVerdict] = {}
        for name, family in self.families.items():
            metric_verdict = verdict(family, self.published[name])
            if metric_verdict is not None:
                verdicts[name] = metric_verdict
        return verdicts

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        test = self._test_or_reason(row, metric)
        return None if isinstance(test, str) else test

    def families_of(self, metric: Metric) -> "list[Family]":
        """That of trained rows first, then those of rows that only score."""
        trained = self.families.get(metric.name)
        scoring = list(self.scoring.get(metric.name, ()))
        return [trained, *scoring] if trained else scoring

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
        scoring = {}
        for name, metric_families in self.scoring.items():
            scoring[name] = tuple(family.withheld(reason) for family in metric_families)
        families = {name: family.withheld(reason) for name, family in self.families.items()}
        return replace(self, families=families, scoring=scoring)


NONE = StudyFindings()


def find(
    study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None
) -> StudyFindings:
    """Everything for all rows of the study, even if a table shows fewer. With ``reports_of``, also
    the best reports."""
    published = dict[str, dict[str, float | None]]()
    for metric in study.task.tabled:
        published[metric.name] = {row.row: row.published[metric.name] for row in rows}
    return replace(
        over_seeds(study, rows, reference),
        unlike=unlike(study),
        best=_best_reports(study, reports_of) if reports_of else {},
        best_of=reports_of,
        later_seeds=later_note(study),
        published=published,
    )


def over_seeds(study: Study, rows: Sequence[TableRow], reference: str) -> StudyFindings:
    """Only the tests over seeds."""
    trained = [row for row in rows if not row.shares_weights]
    families: dict[str, Family] = {}
    scoring: dict[str, tuple[Family, ...]] = {}
    for metric in study.task.tabled:
        family = _family(study, trained, reference, metric, study.paired)
        if family is not None:
            families[metric.name] = family
        scoring[metric.name] = _scoring_families(study, rows, metric)
    return StudyFindings(reference, families, scoring)


def _scoring_families(
    study: Study, rows: Sequence[TableRow], metric: Metric
) -> tuple["Family", ...]:
    """Of the rows that share weights with their reference, one family per reference."""
    families = []
    for reference in dict.fromkeys(row.reference for row in rows if row.shares_weights):
        members = []
        for row in rows:
            shares_its_weights = row.shares_weights and row.reference == reference
            if row.row == reference or shares_its_weights:
                members.append(row)
        family = _family(study, members, reference, metric, paired=True)
        if family is not None:
            families.append(family)
    return tuple(families)


def _family(
    study: Study, rows: Sequence[TableRow], reference: str, metric: Metric, paired: bool
) -> "Family | None":
    """Over seeds, of the rows whose scores can be compared with those of the reference."""
    # SciPy takes a third of a second to import, and a plan does not need it.
    from tracking.statistics.family import Family, RowTest, family
    from tracking.statistics.paired_family import paired_family

    comparable = list[TableRow]()
    reasons = dict[str, RowTest | str]()
    for row in rows:
        reason = _why_left_out(row, metric)
        if reason:
            reasons[row.row] = reason
        else:
            comparable.append(row)
    if reference in reasons:
        reason = f"{reference}: {MIXED_SETTINGS}"
        return Family(metric, reference, {row.row: reason for row in rows if row.row != reference})
    values = {row.row: metric.tested_values(row.seed_values[metric.name]) for row in comparable}
    diverged = {row.row: row.diverged for row in comparable}
    seconds = {row.row: row.seconds for row in rows}
    margin = study.margins.get(metric.name)
    test_family = paired_family if paired else family
    tested = test_family(metric, values, reference, diverged, seconds, margin)
    return replace(tested, rows=tested.rows | reasons) if tested else None


def _why_left_out(row: TableRow, metric: Metric) -> str:
    """Why a row is outside of the family; empty if its scores can be compared."""
    if metric.decided_by((*row.mixed_decode, *row.other_decode)):
        return OTHER_SETTINGS
    return row.not_compared.get(metric.name, "")


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


def later_note(study: Study) -> str:
    """What was added or dropped after results were visible, such as "Seeds were added twice after
    first results (4, 5, 6): …"; or nothing.

    Adding seeds until a difference is marked marks one too often; so does dropping trials. Commands
    count in the order of `study.json`. Seeds of a new row are not added ones, and neither are
    planned seeds that finish later.
    """
    additions = list[list[int]]()
    drops = 0
    earlier_rows = set[str]()
    has_results = False
    for command in study.asked:
        names = command.get("added", ())
        new_trials = [trial for trial in study.trials if trial.name in names]
        seeds = sorted({trial.seed for trial in new_trials if trial.row in earlier_rows})
        earlier_rows |= {trial.row for trial in new_trials}
        has_results = has_results or _saw_results(study, command)
        if has_results and seeds:
            additions.append(seeds)
        if has_results and command.get("dropped"):
            drops += 1
    notes = []
    if additions:
        numbers = dict.fromkeys(str(seed) for seeds in additions for seed in seeds)
        added = f"Seeds were added {_often(len(additions))} after first results"
        notes.append(f"{added} ({', '.join(numbers)}): p values assume a fixed number.")
    if drops:
        dropped = f"Trials were dropped {_often(drops)} after first results"
        notes.append(f"{dropped}: p values do not account for that.")
    return " ".join(notes)


def _saw_results(study: Study, command: Mapping[str, Any]) -> bool:
    """Whether there were results when the command was recorded. Older versions did not record that;
    for their commands, clocks decide."""
    if "saw_results" in command:
        return bool(command["saw_results"])
    time = seconds(command["ts"]) or 0.0
    return any(time > end for end in _end_times(study))


def _end_times(study: Study) -> Iterator[float]:
    """When trials finished, in Unix seconds."""
    for trial in study.trials:
        for attempt in unless_damaged(study.trial_folder(trial).attempts.all, []):
            if attempt.ended is not None and attempt.reason == "finished":
                yield attempt.ended


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")


def findings_line(
    families: Mapping[str, "Family"], scoring: Mapping[str, Sequence["Family"]]
) -> str:
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.01, 9 undecided (3 seeds)".

    If metrics say different things, each is behind its label. Rows that score the
    weights of one row follow: "With base's weights: 1 row worse than base (3 seeds)". ``families``
    and ``scoring`` are by metric. Empty without a row to compare.
    """
    parts = [_metrics_line([*families.values()])]
    families_of_host: dict[str, list[Family]] = {}
    for metric_families in scoring.values():
        for family in metric_families:
            families_of_host.setdefault(family.reference, []).append(family)
    for host, host_families in families_of_host.items():
        changed = [family for family in host_families if not _scores_like_host(family)]
        is_of_some = 0 < len(changed) < len(host_families)
        parts.append(_metrics_line(changed or host_families, f"with {host}'s weights", is_of_some))
    return ". ".join(filter(None, parts))


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
    parts = [*_tested_parts(family), *_untested_parts(family)]
    number, _, words = parts[0].partition(" ")
    noun = "row" if number == "1" else "rows"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _tested_parts(family: "Family") -> list[str]:
    """Such as "2 better than base", "5 worse": one for each kind that any row has. The seeds end
    the last one."""
    rows = Counter(test.finding.kind for test in family.tests.values())
    kinds = [kind for kind in PHRASES if rows[kind]]
    if not kinds:
        return []
    margin = "" if family.margin is None else f"{family.margin:g} {family.metric.label}"
    parts = []
    for kind in kinds:
        than = f" than {family.reference}" if kind == kinds[0] else ""
        words = PHRASES[kind].replace("{than}", than).replace("{margin}", margin)
        parts.append(f"{rows[kind]} {words}")
    seeds = spanned({family.seeds[row] for row in family.tests})
    parts[-1] += f" ({seeds} seeds)"
    return parts


def _untested_parts(family: "Family") -> list[str]:
    """Such as "19 not tested (1 seed)"; more than a few reasons are left to the caption."""
    reasons = [reason for reason in family.rows.values() if isinstance(reason, str)]
    rows = Counter(UNFINISHED.get(reason, reason) for reason in reasons)
    if len(rows) > MOST_REASONS:
        return [f"{len(reasons)} not tested"]
    return [f"{number} not tested ({reason})" for reason, number in rows.items()]
