"""The short caption, for a paper: what was measured, over how many seeds, what each mark means, and
how the study deviated."""

from collections.abc import Iterator, Sequence

from tracking.card import Metric
from tracking.statistics.seeds.finding import FINDING_WORDS, FindingKind, sentence
from tracking.statistics.study_findings import STOPPED, UNLIKE, StudyFindings
from tracking.statistics.table_row import TableRow
from tracking.statistics.table_rows import decode_of
from tracking.statistics.unlike_trials import beyond_change
from tracking.table.columns import setting_words
from tracking.table.machine_captions import machine_lines
from tracking.table.row_captions import error_lines, not_compared_lines, seed_lines
from tracking.table.source_captions import lock_lines
from tracking.table.study_table import StudyTable
from tracking.table.tested_captions import (
    corrected_over,
    corrected_together,
    interval_words,
    margin_words,
    paired_test_words,
    reference_words,
    short_delta_notes,
)
from tracking.words import grouped, listed, spanned


def short_caption(table: StudyTable, names: Sequence[str]) -> str:
    """One paragraph on the columns with these names."""
    scored = [metric for metric in table.card.tabled if metric.name in names]
    compared = [metric for metric in table.card.tabled if f"delta_{metric.name}" in names]
    parts = [*_measured(table, scored or compared)]
    if compared:
        parts += short_delta_notes(table)
    parts.append(_seeds(table))
    sentences = [". ".join(filter(None, parts)) + ".", *_finding_marks(table, compared)]
    sentences += _row_marks(table.findings, table.rows)
    if table.view.verdicts:
        sentences += [verdict.rule for verdict in table.findings.verdicts.values()]
    if any(name.startswith("paper_") for name in names):
        sentences.append(table.card.published_note)
    sentences += _deviations(table, compared)
    metrics = [metric for metric in table.card.tabled if metric in (*scored, *compared)]
    sentences += lock_lines(table.study, metrics, table.findings.reference)
    return " ".join(filter(None, sentences))


def _deviations(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What a reader must know before believing a difference; nothing in most studies."""
    if table.view.seeds:
        seeds = listed([str(seed) for seed in table.view.seeds])
        yield f"Only seeds {seeds} are included; p values do not account for that."
    yield from seed_lines(table.rows, compared)
    yield from not_compared_lines(table.rows, compared)
    yield from machine_lines(table, compared)
    if any(table.findings.families_of(metric) for metric in compared):
        yield table.findings.later_seeds
    for line in error_lines(table.rows):
        yield f"{line}."


def _measured(table: StudyTable, metrics: Sequence[Metric]) -> Iterator[str]:
    """The metrics of each set with the settings that they were scored with: "accuracy on test (cut
    0.5)"."""
    settings = setting_words(table.card, decode_of(table.rows))
    suffix = f" ({', '.join(settings)})" if settings else ""
    for set_name, labels in grouped((metric.set, metric.label) for metric in metrics).items():
        yield f"{listed(labels)} on {set_name}{suffix}"


def _seeds(table: StudyTable) -> str:
    counts = sorted({row.seeds for row in table.rows if row.seeds})
    if not counts:
        return ""
    if counts[-1] == 1:
        return "One seed: differences are not tested"
    return f"Mean ± standard deviation over {spanned(counts)} seeds"


def _finding_marks(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What each mark behind a difference means, and what brackets and δ are."""
    findings = table.findings
    reference = reference_words(table.rows, findings.reference)
    kinds = set[FindingKind]()
    for row in table.rows:
        tests = [findings.test(row, metric) for metric in compared]
        kinds |= {test.finding.kind for test in tests if test is not None}
    if kinds:
        meanings = [
            f"{words.mark} {sentence(kind, reference)}"
            for kind, words in FINDING_WORDS.items()
            if kind in kinds
        ]
        yield f"{'; '.join(meanings)} ({_test_words(table, compared)}, Holm)."
    families = [family for metric in compared for family in findings.families_of(metric)]
    if kinds and table.view.intervals:
        yield interval_words(corrected_over(findings, families), reference)
    margins = margin_words(families)
    if margins:
        yield f"δ: {', '.join(margins)}."


def _row_marks(findings: StudyFindings, rows: Sequence[TableRow]) -> Iterator[str]:
    """What each mark behind a row's name means."""
    unlike = {row.row: findings.unlike[row.row] for row in rows if findings.unlike.get(row.row)}
    if unlike:
        yield f"{UNLIKE} {beyond_change(unlike)}."
    if any(row.stopped for row in rows):
        yield f"{STOPPED} training ended before its planned steps."


def _test_words(table: StudyTable, compared: Sequence[Metric]) -> str:
    """Such as "moderated t-test over seeds, 5 % over all rows"."""
    rows = {row.row for row in table.rows}
    families = [family for metric in compared for family in table.findings.families_of(metric)]
    families = [family for family in families if rows & family.tests.keys()]
    paired = [family for family in families if family.paired]
    if not paired:
        return "moderated t-test over seeds, 5 % over all rows"
    over = corrected_over(table.findings, families)
    if len(paired) < len(families):
        return f"moderated t-test over seeds, paired for rows that only score, 5 % over {over}"
    has_scoring_rows = any(row.comparison.shares_weights for row in table.rows)
    if has_scoring_rows and corrected_together(table.findings, families):
        over = "these rows"
    return f"{paired_test_words(paired)} over seeds, 5 % over {over}"
