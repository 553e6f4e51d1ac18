"""What a caption says of tests over seeds: families, marks, what could have been seen, and what was
not tested.

Trained rows are one family; rows that score the weights of one row are another. A family is tested
over all seeds of row and reference, or seed by seed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tracking.card import Metric
from tracking.statistics.finding import ALPHA, MODERATED_ROWS, SAYS, sentence
from tracking.statistics.findings import Findings
from tracking.statistics.rows import TableRow
from tracking.study import Study
from tracking.table.columns import StudyTable
from tracking.words import listed, number, spanned

if TYPE_CHECKING:
    from tracking.statistics.family import Family

MOST_NAMED = 4
SEVERAL = "its reference"
"""Where rows differ from several ones: trained rows from one, rows that only score from theirs."""


def reference_words(rows: Sequence[TableRow], reference: str) -> str:
    """From which row these rows differ, in words: its name, if it is one."""
    references = {row.reference for row in rows if row.row != row.reference and row.reference}
    if not references:
        return reference
    return next(iter(references)) if len(references) == 1 else SEVERAL


def delta_notes(table: StudyTable) -> Iterator[str]:
    """What Δ is, of trained rows and of those that score the weights of another row."""
    hosts = _hosts(table.rows)
    trained = _trained_rows(table)
    seeds_in_common = "the mean over the seeds that both have"
    if any(row.paired for row in trained):
        yield f"Δ: difference from {table.findings.reference}, {seeds_in_common}"
    elif trained:
        seeds = "between means over all seeds of both"
        if any(row.diverged for row in table.rows):
            seeds += " that did not diverge"
        yield f"Δ: difference from {table.findings.reference}, {seeds}"
    if hosts:
        yield f"{_scoring_delta(hosts)}, {seeds_in_common}"


def short_delta_notes(table: StudyTable) -> Iterator[str]:
    """The same in few words, for a paper."""
    hosts = _hosts(table.rows)
    if _trained_rows(table):
        yield f"Δ: difference from {table.findings.reference}"
    if hosts:
        yield _scoring_delta(hosts)


def _trained_rows(table: StudyTable) -> list[TableRow]:
    """Those that differ from the study's reference; the reference itself where the table has no
    further row."""
    reference = table.findings.reference
    trained = [row for row in table.rows if not row.shares_weights]
    compared = [row for row in trained if row.row != reference]
    return compared or ([] if _hosts(table.rows) else trained)


def _hosts(rows: Sequence[TableRow]) -> list[str]:
    return list(dict.fromkeys(row.reference for row in rows if row.shares_weights))


def _scoring_delta(hosts: Sequence[str]) -> str:
    """Such as "Δ of rows that score base's weights: difference from base"."""
    if len(hosts) == 1:
        return f"Δ of rows that score {hosts[0]}'s weights: difference from {hosts[0]}"
    return f"Δ of rows that score the weights of {' or '.join(hosts)}: difference from that row"


def tested_lines(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What was tested over seeds, and which rows were not."""
    rows = table.rows
    families = [family for metric in compared for family in table.findings.families_of(metric)]
    tested = [family for family in families if family.tests]
    if tested:
        yield " ".join([*_family_lines(table, compared), *_mark_lines(table, tested)])
        yield from filter(None, (" ".join(_seen(family, rows)) for family in tested))
        if table.findings.later_seeds:
            yield table.findings.later_seeds
    has_seeds = any(row.seeds > 1 for row in rows)
    untested = _untested(table, compared) if tested or has_seeds else ""
    if untested:
        yield f"Not tested over seeds: {untested}."


def _family_lines(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """One for trained rows, and one for the rows that score the weights of each host."""
    findings = table.findings
    trained = [
        findings.families[metric.name] for metric in compared if metric.name in findings.families
    ]
    groups: dict[tuple[bool, str], list[Family]] = {(False, findings.reference): trained}
    for metric in compared:
        for family in findings.scoring.get(metric.name, ()):
            groups.setdefault((True, family.reference), []).append(family)
    tested_groups = {}
    for group, families in groups.items():
        tested = [family for family in families if family.tests]
        if tested:
            tested_groups[group] = tested
    over = "all rows" if [*tested_groups] == [(False, findings.reference)] else "these rows"
    for (scores, _), families in tested_groups.items():
        yield _family_line(families, scores, over)


def _family_line(families: Sequence["Family"], scores: bool, over: str) -> str:
    """Such as "Over seeds, 3 rows of 3 seeds are compared with base of 9 seeds, each metric for
    itself: …"."""
    reference = families[0].reference
    number_of_rows = [len(family.tests) for family in families]
    rows = counted(number_of_rows, "row")
    seeds = counted([family.seeds[row] for family in families for row in family.tests], "seed")
    is_one = max(number_of_rows) == 1
    verb = "is" if is_one else "are"
    if not families[0].paired:
        of_reference = counted([family.seeds[reference] for family in families], "seed")
        return (
            f"Over seeds, {rows} of {seeds} {verb} compared with {reference} of {of_reference}, each metric for itself:"
            f" t-test with moderated variances, at 5 % over {over} (Holm)."
        )
    if scores:
        rows += f" that {'scores' if is_one else 'score'} {reference}'s weights"
    return (
        f"Seed by seed, {rows} {verb} compared with {reference} at {seeds}, each metric for itself: "
        f"{paired_test_words(families)}, at 5 % over {over} (Holm)."
    )


def paired_test_words(families: Sequence["Family"]) -> str:
    """A family of few rows has no variances to move towards each other."""
    moderated = max(len(family.tests) for family in families) >= MODERATED_ROWS
    return "paired t-test with moderated variances" if moderated else "paired t-test"


def _mark_lines(table: StudyTable, tested: Sequence["Family"]) -> Iterator[str]:
    """What each mark in the table means, and what brackets are."""
    shown = {row.row for row in table.rows}
    reference = reference_words(table.rows, table.findings.reference)
    kinds = {
        test.finding.kind for family in tested for row, test in family.tests.items() if row in shown
    }
    yield " ".join(
        f"{mark}: {sentence(kind, reference)}." for kind, (mark, _) in SAYS.items() if kind in kinds
    )
    if down := [family.metric.label for family in tested if family.metric.better == "down"]:
        labels = listed(list(dict.fromkeys(down)))
        yield f"Marks say better or worse, not up or down: lower {labels} is better."
    margins = [
        f"{family.metric.label} {family.margin:g}" for family in tested if family.margin is not None
    ]
    if margins:
        yield f"δ: {', '.join(dict.fromkeys(margins))}, as the study states (sweep.margin)."
    if table.view.intervals:
        yield from _interval_lines(tested, shown, reference)


def _interval_lines(tested: Sequence["Family"], shown: set[str], reference: str) -> Iterator[str]:
    over = (
        "all rows"
        if len({family.reference for family in tested}) == 1
        else "the rows of each reference"
    )
    yield f"[ ]: 95 % interval of Δ, over seeds of row and {reference}, adjusted over {over} (Bonferroni)."
    odd = [
        row
        for family in tested
        for row, test in family.tests.items()
        if row in shown and test.unlike_its_interval
    ]
    if odd:
        named = ", ".join(dict.fromkeys(odd))
        yield f"Marked although the interval holds 0, since intervals are adjusted more strictly: {named}."


def _seen(family: "Family", rows: Sequence[TableRow]) -> Iterator[str]:
    """What could have been seen, and what would decide, such as "PPL: a true difference of 0.2 is
    marked …"."""
    metric = family.metric
    shares = any(row.shares_weights for row in rows if row.row in family.tests)
    label = f"{metric.label} with {family.reference}'s weights" if shares else metric.label
    if family.detectable:
        ends = dict.fromkeys(number(end, metric.places) for end in family.detectable)
        yield f"{label}: a true difference of {' to '.join(ends)} is marked with probability 0.8."
    deciding: dict[str, list[str]] = {}
    for row in rows:
        test = family.tests.get(row.row)
        if test and test.finding.kind == "undecided":
            deciding.setdefault(test.finding.deciding, []).append(row.row)
    if deciding:
        size = "δ" if family.margin is not None else "the size seen"
        named = "; ".join(f"{seeds} ({', '.join(names)})" for seeds, names in deciding.items())
        verb = "shared" if family.paired else "had"
        yield (
            f"Undecided; a difference of {size} would be marked with probability 0.8 "
            f"if row and {family.reference} {verb} {named}."
        )


def _untested(table: StudyTable, compared: Sequence[Metric]) -> str:
    """The shown rows by their reason, such as "big, base_2 (2 seeds)"; a reason of some metrics
    names them."""
    return _named_by_reason(
        (row.row, why) for row in table.rows if (why := _why_untested(table, row, compared))
    )


def _named_by_reason(reasons: Iterable[tuple[str, str]]) -> str:
    """Of rows with their reasons, such as "big, base_2 (2 seeds)"; many rows are counted."""
    rows_of_reason: dict[str, list[str]] = {}
    for row, why in reasons:
        rows_of_reason.setdefault(why, []).append(row)
    parts = []
    for why, rows in rows_of_reason.items():
        names = ", ".join(rows) if len(rows) <= MOST_NAMED else f"{len(rows)} rows"
        parts.append(f"{names} ({why})")
    return ", ".join(parts)


def _why_untested(table: StudyTable, row: TableRow, compared: Sequence[Metric]) -> str:
    """Such as "2 seeds", or "accuracy: no variance over seeds" where another metric is tested."""
    comparable = [metric for metric in compared if metric.name not in row.not_compared]
    families = [
        family for metric in comparable if (family := table.findings.family_of(row.row, metric))
    ]
    return _reason_words([(family.metric, family.rows[row.row]) for family in families])


def _reason_words(reasons: Sequence[tuple[Metric, object]]) -> str:
    """The reason that all metrics share, or each reason behind the label of its metric. What is no
    text is none."""
    texts = [(metric.label, why) for metric, why in reasons if isinstance(why, str)]
    shared = {why for _, why in texts}
    if len(texts) == len(reasons) and len(shared) == 1:
        return shared.pop()
    return ", ".join(f"{label}: {why}" for label, why in texts)


def counted(counts: Sequence[int], noun: str) -> str:
    """Such as "1 row", or "3 to 9 seeds"."""
    return f"{spanned(counts)} {noun if max(counts) == 1 else noun + 's'}"


def tested_sentences(study: Study, findings: Findings) -> str:
    """For a paragraph on methods: of trained rows, and of those that score the weights of each row.
    Empty without."""
    trained = [family for family in findings.families.values() if family.tests]
    sentences = [_tested_sentence(study, trained)]
    scoring = [
        family for of_metric in findings.scoring.values() for family in of_metric if family.tests
    ]
    for host in dict.fromkeys(family.reference for family in scoring):
        of_host = [family for family in scoring if family.reference == host]
        sentences.append(
            _tested_sentence(study, of_host, f"For rows that only score the weights of {host}, ")
        )
    return " ".join(filter(None, sentences))


def _tested_sentence(study: Study, families: Sequence["Family"], whose: str = "") -> str:
    if not families:
        return ""
    labels = listed(
        list(dict.fromkeys(study.task.tested(family.metric).label for family in families))
    )
    rows = counted([len(family.tests) for family in families], "row")
    reference = families[0].reference
    tests = "t-tests with moderated variances (Smyth, 2004) and Satterthwaite's degrees of freedom"
    if families[0].paired:
        tests = f"{_paired_tests_words(families)} at the seeds in common"
    differences = "differences" if whose else "Differences"
    tested = (
        f"{whose}{differences} from {reference} in {labels} are tested over seeds by {tests}, "
        f"with Holm's correction ({rows}, {100 * ALPHA:g} % for the family); their 95 % intervals have Bonferroni's."
    )
    return tested + _margins(families, reference)


def _paired_tests_words(families: Sequence["Family"]) -> str:
    if max(len(family.tests) for family in families) < MODERATED_ROWS:
        return "paired t-tests"
    return "paired t-tests with moderated variances (Smyth, 2004)"


def _margins(families: Iterable["Family"], reference: str) -> str:
    margins = [
        f"{family.metric.label} {family.margin:g}"
        for family in families
        if family.margin is not None
    ]
    if not margins:
        return ""
    shows = f"the intervals also show which rows are no worse than {reference} by δ, and which are better by at least δ"
    return f" With the stated margin δ ({listed(margins)}), {shows}."
