"""What a study's table says beyond its means: the tests over seeds, rows that are not alike, and
the best reports. As marks and words for people, and as fields for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracking.card import Metric
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, in_line
from tracking.statistics.rows import TableRow
from tracking.statistics.study_findings import findings_line
from tracking.statistics.unlike_trials import Unlike, unlike
from tracking.study import Study, seconds

if TYPE_CHECKING:
    from tracking.statistics.family import Family, RowTest
    from tracking.statistics.verdict import MetricVerdict

BestReports = dict[str, dict[int, tuple[float, int]]]
"""Row -> seed -> the best value that was reported while training, and the first step that has
it."""
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
    families: dict[str, "Family"] = field(default_factory=dict)  # over seeds, of trained rows
    scoring: dict[str, tuple["Family", ...]] = field(
        default_factory=dict
    )  # of rows that score one row's weights each
    unlike: dict[str, list[Unlike]] = field(default_factory=dict)  # by row
    best: BestReports = field(default_factory=dict)
    best_of: Metric | None = None  # the metric of these
    later_seeds: str = ""  # a note on seeds that were added after first results
    published: dict[str, dict[str, float | None]] = field(default_factory=dict)  # by row

    @cached_property
    def summary(self) -> str:
        """What was found of all rows, in one line; empty where nothing was looked for."""
        return findings_line(self.families, self.scoring)

    @cached_property
    def verdicts(self) -> dict[str, "MetricVerdict"]:
        """Our differences against the published ones, only of metrics with published values."""
        from tracking.statistics.verdict import verdict

        found = {
            name: verdict(family, self.published[name]) for name, family in self.families.items()
        }
        return {name: given for name, given in found.items() if given}

    def test(self, row: TableRow, metric: Metric) -> "RowTest | None":
        found = self._found(row, metric)
        return None if isinstance(found, str) else found

    def families_of(self, metric: Metric) -> "list[Family]":
        """That of trained rows first, then those of rows that only score."""
        trained = self.families.get(metric.name)
        scoring = list(self.scoring.get(metric.name, ()))
        return [trained, *scoring] if trained else scoring

    def family_of(self, row: str, metric: Metric) -> "Family | None":
        """The family in which this row is compared."""
        return next((family for family in self.families_of(metric) if row in family.rows), None)

    def _found(self, row: TableRow, metric: Metric) -> "RowTest | str":
        family = self.family_of(row.row, metric)
        return family.rows[row.row] if family else ""

    def mark(self, row: TableRow, metric: Metric) -> str:
        """Of the finding over seeds; empty where none was tested."""
        test = self.test(row, metric)
        return test.finding.mark if test else ""

    def interval(self, row: TableRow, metric: Metric) -> tuple[float, float] | None:
        """95 %, over seeds; None where they are not tested."""
        test = self.test(row, metric)
        return (test.low, test.high) if test else None

    def row_mark(self, row: TableRow) -> str:
        """Behind its name."""
        return UNLIKE * bool(self.unlike.get(row.row)) + STOPPED * bool(row.stopped)

    def words(self, row: TableRow, metric: Metric) -> str:
        """The finding as a sentence, or "not tested: …"; empty where nothing was looked for."""
        if not self.families_of(metric):
            return ""
        if row.row == self.reference:
            return "reference"
        found = self._found(row, metric)
        return f"not tested: {found}" if isinstance(found, str) else found.finding.text

    def verdict(self, row: TableRow, metric: str) -> str:
        """Against the published difference; empty without one."""
        return self.verdicts[metric].rows.get(row.row, "") if metric in self.verdicts else ""


NONE = Findings()


def find(
    study: Study, rows: Sequence[TableRow], reference: str, reports_of: Metric | None = None
) -> Findings:
    """Everything for all rows of the study, whatever is shown. With ``reports_of``, the best
    reports, too."""
    tabled = study.task.tabled
    trained = [row for row in rows if not row.shares_weights]
    families = {
        metric.name: _family(study, trained, reference, metric, study.paired) for metric in tabled
    }
    return Findings(
        reference,
        families={name: family for name, family in families.items() if family},
        scoring={metric.name: _scoring_families(study, rows, metric) for metric in tabled},
        unlike=unlike(study),
        best=_best_reports(study, reports_of) if reports_of else {},
        best_of=reports_of,
        later_seeds=later_note(study),
        published={
            metric.name: {row.row: row.published[metric.name] for row in rows} for metric in tabled
        },
    )


def _scoring_families(
    study: Study, rows: Sequence[TableRow], metric: Metric
) -> tuple["Family", ...]:
    """Of the rows that share weights with their reference, one family for each reference."""
    families = []
    for reference in dict.fromkeys(row.reference for row in rows if row.shares_weights):
        of_reference = [row for row in rows if row.row == reference or _scores_like(row, reference)]
        if family := _family(study, of_reference, reference, metric, paired=True):
            families.append(family)
    return tuple(families)


def _scores_like(row: TableRow, reference: str) -> bool:
    return row.shares_weights and row.reference == reference


def _family(
    study: Study, rows: Sequence[TableRow], reference: str, metric: Metric, paired: bool
) -> "Family | None":
    """Over seeds, of the rows whose scores can be compared with those of the reference."""
    from tracking.statistics.family import (  # SciPy takes a third of a second, which a plan does not need
        Family,
        RowTest,
        family,
    )
    from tracking.statistics.paired_family import paired_family

    whys = {row.row: _why_left_out(row, metric) for row in rows}
    comparable = [row for row in rows if not whys[row.row]]
    others: dict[str, RowTest | str] = {row: why for row, why in whys.items() if why}
    if reference in others:
        why = f"{reference}: {MIXED_SETTINGS}"
        return Family(metric, reference, {row.row: why for row in rows if row.row != reference})
    values = {row.row: metric.tested_values(row.seed_values[metric.name]) for row in comparable}
    diverged = {row.row: row.diverged for row in comparable}
    seconds = {row.row: row.seconds for row in rows}
    margin = study.margins.get(metric.name)
    tested = paired_family if paired else family
    made = tested(metric, values, reference, diverged, seconds, margin)
    return replace(made, rows=made.rows | others) if made else None


def _why_left_out(row: TableRow, metric: Metric) -> str:
    """Why a row is outside of the family; empty if its scores can be compared."""
    if metric.decided_by((*row.mixed_decode, *row.other_decode)):
        return OTHER_SETTINGS
    return row.not_compared.get(metric.name, "")


def _best_reports(study: Study, metric: Metric) -> BestReports:
    """A trial that does not count, or that reported no such value, is left out."""
    found: BestReports = {}
    for trial in [standing.trial for standing in study.standings() if standing.counted is not None]:
        if best := unless_damaged(
            partial(_best_of, study.trial_folder(trial).journal_path, metric), None
        ):
            found.setdefault(trial.row, {})[trial.seed] = best
    return found


def _best_of(journal: Path, metric: Metric) -> tuple[float, int] | None:
    """Only reports of the metric on its set are parsed."""
    point = f"{metric.set}/{metric.name}"
    reports = reversed([*Journal(journal).newest_first(holding=in_line(point))])
    seen = [(report.metrics[point], report.step) for report in reports if point in report.metrics]
    best = metric.best(value for value, _ in seen)
    return next(((value, step) for value, step in seen if value == best), None)


def later_note(study: Study) -> str:
    """What was added or dropped when results could already be seen, such as "Seeds were added twice
    after first results (4, 5, 6): …"; or nothing. Adding seeds until a difference is marked finds
    one too often; so does dropping trials.

    By the order of commands in `study.json`, each with what it added and dropped, and whether it
    saw results. Seeds of a row that is new itself are no added ones, and neither are planned seeds
    that finish later."""
    added = list[list[int]]()
    drops = 0
    known = set[str]()
    saw = False
    for asked in study.asked:
        new = [
            (trial.row, trial.seed)
            for trial in study.trials
            if trial.name in asked.get("added", ())
        ]
        seeds = sorted({seed for row, seed in new if row in known})
        known |= {row for row, _ in new}
        saw = saw or _saw_results(study, asked)
        if saw and seeds:
            added.append(seeds)
        if saw and asked.get("dropped"):
            drops += 1
    listed = ", ".join(dict.fromkeys(str(seed) for seeds in added for seed in seeds))
    notes = []
    if added:
        times = _often(len(added))
        notes.append(
            f"Seeds were added {times} after first results ({listed}): p values assume a fixed number."
        )
    if drops:
        notes.append(
            f"Trials were dropped {_often(drops)} after first results: p values do not account for that."
        )
    return " ".join(notes)


def _saw_results(study: Study, asked: Mapping[str, Any]) -> bool:
    """Whether results were there when the command was recorded. Commands of older versions did not
    say so; of these alone, clocks tell."""
    if "saw_results" in asked:
        return bool(asked["saw_results"])
    return any((seconds(asked["ts"]) or 0.0) > end for end in _ends(study))


def _ends(study: Study) -> Iterator[float]:
    """When trials finished, in Unix seconds."""
    for trial in study.trials:
        for attempt in unless_damaged(study.trial_folder(trial).attempts.all, []):
            if attempt.ended is not None and attempt.reason == "finished":
                yield attempt.ended


def _often(times: int) -> str:
    return {1: "once", 2: "twice"}.get(times, f"{times} times")
