"""The caption of a paper: what was measured, over how many seeds, what each mark means, and how the
study deviated."""

from collections.abc import Iterator, Sequence

from tracking.card import Metric
from tracking.statistics.finding import SAYS, sentence
from tracking.statistics.findings import STOPPED, UNLIKE
from tracking.statistics.rows import decode_of
from tracking.table.columns import StudyTable, setting_words
from tracking.table.row_captions import error_lines, not_compared_lines, seed_lines
from tracking.table.source_captions import lock_lines
from tracking.table.tested_captions import paired_test_words, reference_words, short_delta_notes
from tracking.words import listed, spanned


def short_caption(table: StudyTable, names: Sequence[str]) -> str:
    """One paragraph on the columns with these names."""
    scored = [metric for metric in table.card.tabled if metric.name in names]
    compared = [metric for metric in table.card.tabled if f"delta_{metric.name}" in names]
    parts = [*_measured(table, scored or compared), *_differences(table, compared), _seeds(table)]
    sentences = [". ".join(filter(None, parts)) + ".", *_marks(table, compared)]
    if any(name.startswith("paper_") for name in names):
        sentences.append(table.card.published_note)
    shown = [metric for metric in table.card.tabled if metric in (*scored, *compared)]
    lock = lock_lines(table.study, shown, table.findings.reference)
    return " ".join(filter(None, [*sentences, *_deviations(table, compared), *lock]))


def _deviations(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What a reader must know before believing a difference; nothing in most studies."""
    findings = table.findings
    rows = table.rows
    if table.view.seeds:
        yield f"Only of seeds {listed([str(seed) for seed in table.view.seeds])}; p values do not account for that."
    yield from seed_lines(rows, compared)
    yield from not_compared_lines(rows, compared)
    if any(findings.families_of(metric) for metric in compared):
        yield findings.later_seeds
    yield from (f"{line}." for line in error_lines(rows))


def _measured(table: StudyTable, metrics: Sequence[Metric]) -> Iterator[str]:
    """The metrics of each set with the settings that they were scored with: "accuracy on test (cut
    0.5)"."""
    settings = ", ".join(setting_words(table.card, decode_of(table.rows)))
    for name in dict.fromkeys(metric.set for metric in metrics):
        labels = [metric.label for metric in metrics if metric.set == name]
        yield f"{listed(labels)} on {name}{f' ({settings})' if settings else ''}"


def _differences(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    if compared:
        yield from short_delta_notes(table)


def _seeds(table: StudyTable) -> str:
    counts = sorted({row.seeds for row in table.rows if row.seeds})
    if not counts:
        return ""
    if counts[-1] == 1:
        return "One seed: differences not tested"
    return f"Mean ± standard deviation over {spanned(counts)} seeds"


def _marks(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """Each sign that stands in the table."""
    findings = table.findings
    reference = reference_words(table.rows, findings.reference)
    tests = [
        test for row in table.rows for metric in compared if (test := findings.test(row, metric))
    ]
    kinds = {test.finding.kind for test in tests}
    if kinds:
        words = [
            f"{mark} {sentence(kind, reference)}"
            for kind, (mark, _) in SAYS.items()
            if kind in kinds
        ]
        yield f"{'; '.join(words)} ({_test_words(table, compared)}, Holm)."
    families = [family for metric in compared for family in findings.families_of(metric)]
    margins = [
        f"{family.metric.label} {family.margin:g}"
        for family in families
        if family.margin is not None
    ]
    if margins:
        yield f"δ: {', '.join(dict.fromkeys(margins))}."
    signs = "".join(findings.row_mark(row) for row in table.rows)
    signs += "".join(findings.mark(row, metric) for row in table.rows for metric in compared)
    if UNLIKE in signs:
        yield f"{UNLIKE} differs from most trials in more than its change."
    if STOPPED in signs:
        yield f"{STOPPED} training ended before its planned steps."


def _test_words(table: StudyTable, compared: Sequence[Metric]) -> str:
    """Such as "moderated t-test over seeds, 5 % over all rows"."""
    rows = {row.row for row in table.rows}
    families = [family for metric in compared for family in table.findings.families_of(metric)]
    shown = [family for family in families if rows & family.tests.keys()]
    paired = [family for family in shown if family.paired]
    if not paired:
        return "moderated t-test over seeds, 5 % over all rows"
    if len(paired) < len(shown):
        return "moderated t-test over seeds, paired for rows that only score, 5 % over the rows of each reference"
    over = "the rows of each reference"
    if len({family.reference for family in shown}) == 1:
        over = "these rows" if any(row.shares_weights for row in table.rows) else "all rows"
    return f"{paired_test_words(paired)} over seeds, 5 % over {over}"
