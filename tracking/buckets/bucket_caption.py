"""What the table by bucket needs to say: its buckets, its differences, its tests, and what is left
out."""

from collections import Counter

from tracking.buckets.bucket_scores import BucketScores
from tracking.statistics.seeds.finding import FINDING_WORDS, same_scores, sentence
from tracking.table.source_captions import lock_lines
from tracking.table.tested_captions import delta_notes
from tracking.words import count_of, grouped, listed

MOST_REASONS = 3


def caption(scores: BucketScores) -> str:
    """Each line is a paragraph."""
    lines = [
        _bucket_line(scores),
        f"{'. '.join([*delta_notes(scores.whole)])}. {_drift_line(scores)}",
        _tested_line(scores),
        _left_out_line(scores),
        _row_mark_line(scores),
        scores.whole.findings.later_seeds,
        *lock_lines(scores.whole.study, scores.metrics, scores.whole.findings.reference),
    ]
    return "\n".join(filter(None, lines))


def _bucket_line(scores: BucketScores) -> str:
    noun = scores.whole.card.sample
    sizes = listed([str(bucket.samples) for bucket in scores.buckets])
    return (
        f"{scores.quantity.words}: from the counts of each {noun} of {scores.set_name}. "
        f"Buckets of {sizes} {noun}s, each scored as a whole; ±: standard deviation over seeds."
    )


def _drift_line(scores: BucketScores) -> str:
    labels = listed([scores.drift_metric(metric).label for metric in scores.metrics])
    return f"Last minus first: how much Δ of {labels} grows from the first bucket to the last."


def _tested_line(scores: BucketScores) -> str:
    findings = scores.drift.findings
    tested_rows = dict.fromkeys(
        row
        for metric in scores.metrics
        for family in findings.families_of(metric)
        for row in family.tests
    )
    reasons = _reasons(scores)
    if not tested_rows:
        return f"Nothing is tested: {reasons}."
    marks = {findings.mark(row, metric) for row in scores.drift.rows for metric in scores.metrics}
    meanings = [
        f"{words.mark} {sentence(kind)}"
        for kind, words in FINDING_WORDS.items()
        if words.mark in marks
    ]
    rows = count_of(len(tested_rows), "row")
    line = f"Only last minus first is tested, over seeds of {rows} (Holm): {'; '.join(meanings)}."
    return f"{line} Not tested: {reasons}." if reasons else line


def _reasons(scores: BucketScores) -> str:
    """Why shown rows have no test of their change from the first to the last bucket, by
    frequency."""
    findings = scores.drift.findings
    shown = {row.row for row in scores.whole.rows}
    pairs = list[tuple[str, str]]()
    for metric in scores.metrics:
        for family in findings.families_of(metric):
            rows_shown = {row: test for row, test in family.rows.items() if row in shown}
            for row, test in rows_shown.items():
                if isinstance(test, str) and test != same_scores(family.reference):
                    pairs.append((test, row))
    rows_of_reason = grouped(dict.fromkeys(pairs))
    counts = Counter({reason: len(rows) for reason, rows in rows_of_reason.items()})
    parts = []
    for reason, number in counts.most_common(MOST_REASONS):
        rows = rows_of_reason[reason]
        who = rows[0] if number == 1 else f"{number} rows"
        parts.append(f"{reason} ({who})")
    return "; ".join(parts)


def _left_out_line(scores: BucketScores) -> str:
    if not scores.left_out:
        return ""
    shown = scores.left_out[:MOST_REASONS]
    others = len(scores.left_out) - len(shown)
    more = f"; and {others} others" if others else ""
    return f"Left out: {'; '.join(shown)}{more}."


def _row_mark_line(scores: BucketScores) -> str:
    """Rows that differ beyond their change keep their mark. The study's own table says why."""
    findings = scores.whole.findings
    marks = dict.fromkeys("".join(findings.row_mark(row) for row in scores.whole.rows))
    return f"{listed([*marks])}: see the caption of `allelse table`." if marks else ""
