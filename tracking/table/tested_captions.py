"""What a caption says about tests over seeds: families, marks, power, and what was not tested.

Trained rows are one family; rows that score the weights of one row are another family. A family is
tested over all seeds of row and reference, or seed by seed.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tracking.card import Metric
from tracking.statistics.references import ITS_REFERENCE
from tracking.statistics.seeds.finding import ALPHA, FINDING_WORDS, MODERATED_ROWS, sentence
from tracking.statistics.study_findings import StudyFindings, grouped_by_reference
from tracking.statistics.table_row import TableRow
from tracking.study import Study
from tracking.table.study_table import StudyTable
from tracking.words import grouped, listed, number, plural, spanned

if TYPE_CHECKING:
    from tracking.statistics.seeds.family import Family, RowTest

MOST_NAMED = 4


def reference_words(rows: Sequence[TableRow], reference: str) -> str:
    """The name of the row from which these rows differ, if it is one row."""
    compared = [row for row in rows if row.comparison.reference not in ("", row.row)]
    references = {row.comparison.reference for row in compared}
    if len(references) > 1:
        return ITS_REFERENCE
    return references.pop() if references else reference


def delta_notes(table: StudyTable) -> Iterator[str]:
    """What Δ is for trained rows, and for those that score the weights of another row."""
    hosts = _hosts(table.rows)
    trained = _trained_rows(table)
    seeds_in_common = "the mean over the seeds that both have"
    if any(row.comparison.paired for row in trained):
        yield f"{_trained_delta(table, trained)}, {seeds_in_common}"
    elif trained:
        seeds = "between means over all seeds of both"
        if any(row.diverged for row in table.rows):
            seeds += " that did not diverge"
        yield f"{_trained_delta(table, trained)}, {seeds}"
    if hosts:
        yield f"{_scoring_delta(hosts)}, {seeds_in_common}"


def short_delta_notes(table: StudyTable) -> Iterator[str]:
    """The same in few words, for a paper."""
    hosts = _hosts(table.rows)
    trained = _trained_rows(table)
    if trained:
        yield _trained_delta(table, trained)
    if hosts:
        yield _scoring_delta(hosts)


def _trained_delta(table: StudyTable, trained: Sequence[TableRow]) -> str:
    """Such as "Δ: difference from base, for wide-relu and wide-tanh from wide"."""
    parts = list[str]()
    if any(row.comparison.reference == table.findings.reference for row in trained):
        parts.append(f"from {table.findings.reference}")
    others = [row for row in trained if row.comparison.reference != table.findings.reference]
    rows_of_reference = grouped((row.comparison.reference, row.row) for row in others)
    parts += [f"for {listed(rows)} from {name}" for name, rows in rows_of_reference.items()]
    return f"Δ: difference {', '.join(parts)}"


def _trained_rows(table: StudyTable) -> list[TableRow]:
    """Those that differ from the study's reference; the reference itself if the table has no other
    row."""
    trained = [row for row in table.rows if not row.comparison.shares_weights]
    compared = [row for row in trained if row.row != table.findings.reference]
    if compared or _hosts(table.rows):
        return compared
    return trained


def _hosts(rows: Sequence[TableRow]) -> list[str]:
    scoring = [row for row in rows if row.comparison.shares_weights]
    return list(dict.fromkeys(row.comparison.reference for row in scoring))


def _scoring_delta(hosts: Sequence[str]) -> str:
    """Such as "Δ of rows that score base's weights: difference from base"."""
    if len(hosts) == 1:
        return f"Δ of rows that score {hosts[0]}'s weights: difference from {hosts[0]}"
    return f"Δ of rows that score the weights of {' or '.join(hosts)}: difference from that row"


def tested_lines(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """What was tested over seeds, and which rows were not."""
    families = [family for metric in compared for family in table.findings.families_of(metric)]
    tested = [family for family in families if family.tests]
    if tested:
        yield " ".join([*_family_lines(table, compared), *_mark_lines(table, tested)])
        for family in tested:
            power = " ".join(_power_lines(family, table))
            if power:
                yield power
        if table.findings.later_seeds:
            yield table.findings.later_seeds
    if tested or any(row.seeds > 1 for row in table.rows):
        untested = _untested(table, compared)
        if untested:
            yield f"Not tested over seeds: {untested}."


def _family_lines(table: StudyTable, compared: Sequence[Metric]) -> Iterator[str]:
    """One for trained rows, and one for the rows that score the weights of each host."""
    trained = _trained_families(table.findings, compared)
    families_of_host = _families_of_host(table.findings, compared)
    over = "these rows" if families_of_host else "all rows"
    if trained:
        yield _family_line(trained, False, over)
    for families in families_of_host.values():
        yield _family_line(families, True, over)


def _trained_families(findings: StudyFindings, metrics: Sequence[Metric]) -> "list[Family]":
    """Those of trained rows with a test."""
    families = [family for metric in metrics for family in findings.trained_families(metric.name)]
    return [family for family in families if family.tests]


def _families_of_host(
    findings: StudyFindings, metrics: Sequence[Metric]
) -> "dict[str, list[Family]]":
    """Those of rows that only score with a test, by the row whose weights they score."""
    families = [family for metric in metrics for family in findings.families_of(metric)]
    return grouped_by_reference(
        family for family in families if family.shares_weights and family.tests
    )


def _family_line(families: Sequence["Family"], only_score: bool, over: str) -> str:
    """Such as "Over seeds, 3 rows (3 seeds) are compared with base (9 seeds), each metric
    separately: …". Rows with another reference follow: "and 2 rows (3 seeds) with wide (9
    seeds)"."""
    level = f"5 % level over {over} (Holm)"
    comparisons = list[str]()
    for families_of_reference in grouped_by_reference(families).values():
        is_first = not comparisons
        comparisons.append(_comparison_words(families_of_reference, only_score, is_first))
    test = "t-test with moderated variances"
    basis = "Over seeds"
    if families[0].paired:
        test = paired_test_words(families)
        basis = "Seed by seed"
    return f"{basis}, {listed(comparisons)}, each metric separately: {test}, {level}."


def _comparison_words(families: Sequence["Family"], only_score: bool, has_verb: bool) -> str:
    """Such as "3 rows (3 seeds) are compared with base (9 seeds)", of one reference."""
    reference = families[0].reference
    number_of_rows = [len(family.tests) for family in families]
    rows = counted(number_of_rows, "row")
    seeds = counted([family.seeds[row] for family in families for row in family.tests], "seed")
    is_one_row = max(number_of_rows) == 1
    verb = ""
    if has_verb:
        verb = " is compared" if is_one_row else " are compared"
    if not families[0].paired:
        reference_seeds = counted([family.seeds[reference] for family in families], "seed")
        return f"{rows} ({seeds}){verb} with {reference} ({reference_seeds})"
    if only_score:
        rows += f" that {'scores' if is_one_row else 'score'} {reference}'s weights"
    return f"{rows}{verb} with {reference} at {seeds}"


def paired_test_words(families: Sequence["Family"]) -> str:
    """A family of few rows has no variances to move towards each other."""
    moderated = _most_comparisons(families) >= MODERATED_ROWS
    return "paired t-test with moderated variances" if moderated else "paired t-test"


def _most_comparisons(families: Sequence["Family"]) -> int:
    """The rows that were tested together, at most."""
    return max(family.comparisons for family in families)


def corrected_over(findings: StudyFindings, families: "Sequence[Family]") -> str:
    """The rows over which the tests of a metric are corrected."""
    if corrected_together(findings, families):
        return "all rows"
    if len(_trained_references(findings, families)) > 1:
        return "all trained rows, and over the rows that score one row's weights"
    return "the rows of each reference"


def corrected_together(findings: StudyFindings, families: "Sequence[Family]") -> bool:
    """Whether the tests of a metric are corrected over all rows: trained rows are tested together,
    and so are rows with one reference."""
    references = {family.reference for family in families}
    return len(references) == 1 or references == _trained_references(findings, families)


def _trained_references(findings: StudyFindings, families: "Sequence[Family]") -> set[str]:
    """What trained rows are compared with in these families."""
    names = dict.fromkeys(family.metric.name for family in families)
    trained = [family for name in names for family in findings.trained_families(name)]
    return {family.reference for family in trained if family in families}


def _mark_lines(table: StudyTable, tested: Sequence["Family"]) -> Iterator[str]:
    """What each mark in the table means, and what brackets are."""
    tests = _tests_of_rows(tested, table.rows)
    reference = reference_words(table.rows, table.findings.reference)
    kinds = {test.finding.kind for _, test in tests}
    yield " ".join(
        f"{words.mark}: {sentence(kind, reference)}."
        for kind, words in FINDING_WORDS.items()
        if kind in kinds
    )
    metrics = [family.metric for family in tested]
    lower_is_better = [metric.label for metric in metrics if metric.better == "down"]
    if lower_is_better and kinds & {"better", "worse"}:
        labels = listed(list(dict.fromkeys(lower_is_better)))
        yield f"▲ and ▼ mean better and worse: lower {labels} is better."
    margins = margin_words(tested)
    if margins:
        yield f"δ: {', '.join(margins)}, as the study states (sweep.margin)."
    if table.view.intervals:
        over = corrected_over(table.findings, tested)
        yield from _interval_lines(over, tests, reference)


def margin_words(families: Iterable["Family"]) -> list[str]:
    """The stated margins, such as "accuracy 0.3", without repeats."""
    stated = [family for family in families if family.margin is not None]
    return list(dict.fromkeys(f"{family.metric.label} {family.margin:g}" for family in stated))


def _tests_of_rows(
    families: Iterable["Family"], rows: Sequence[TableRow]
) -> "list[tuple[str, RowTest]]":
    """The tests of these rows, each with the name of its row."""
    names = {row.row for row in rows}
    return [
        (row, test) for family in families for row, test in family.tests.items() if row in names
    ]


def interval_words(over: str, reference: str) -> str:
    """What brackets are."""
    return (
        f"[ ]: 95 % interval of Δ, over seeds of row and {reference}, "
        f"adjusted over {over} (Bonferroni)."
    )


def _interval_lines(
    over: str, tests: "Sequence[tuple[str, RowTest]]", reference: str
) -> Iterator[str]:
    yield interval_words(over, reference)
    rows = dict.fromkeys(row for row, test in tests if test.unlike_its_interval)
    if rows:
        reason = "because intervals are adjusted more strictly"
        yield f"Marked although the interval contains 0, {reason}: {', '.join(rows)}."


def _power_lines(family: "Family", table: StudyTable) -> Iterator[str]:
    """What the seeds of the shown rows can show, and how many more would decide, such as "PPL: 80 %
    power to detect a difference of 0.2."."""
    findings = [
        (family.tests[row.row].finding, row.row) for row in table.rows if row.row in family.tests
    ]
    if not findings:
        return
    metric = family.metric
    label = metric.label
    if family.shares_weights:
        label += f" with {family.reference}'s weights"
    elif family.reference != table.findings.reference:
        label += f" against {family.reference}"
    if family.detectable:
        ends = dict.fromkeys(number(end, metric.places) for end in family.detectable)
        yield f"{label}: 80 % power to detect a difference of {' to '.join(ends)}."
    undecided = [(finding, row) for finding, row in findings if finding.kind == "undecided"]
    difference = "a difference of δ" if family.margin is not None else "this difference"
    with_enough_seeds = [row for finding, row in undecided if finding.enough]
    if with_enough_seeds:
        names = ", ".join(with_enough_seeds)
        yield f"Undecided although the seeds give 80 % power at {difference}: {names}."
    rows_of_seeds = grouped(
        (finding.needed_seeds, row) for finding, row in undecided if not finding.enough
    )
    if rows_of_seeds:
        parts = [f"{seeds} ({', '.join(names)})" for seeds, names in rows_of_seeds.items()]
        verb = "must share" if family.paired else "need"
        yield (
            f"Undecided: for 80 % power at {difference}, row and {family.reference} {verb} "
            f"{'; '.join(parts)}."
        )


def _untested(table: StudyTable, compared: Sequence[Metric]) -> str:
    """The shown rows by their reason, such as "big, base_2 (2 seeds)"; a reason of some metrics
    names them."""
    reasons = [(_why_untested(table, row, compared), row.row) for row in table.rows]
    parts = []
    for reason, rows in grouped(pair for pair in reasons if pair[0]).items():
        names = ", ".join(rows) if len(rows) <= MOST_NAMED else f"{len(rows)} rows"
        parts.append(f"{names} ({reason})")
    return ", ".join(parts)


def _why_untested(table: StudyTable, row: TableRow, compared: Sequence[Metric]) -> str:
    """Such as "2 seeds", or "accuracy: no variance over seeds" where another metric is tested."""
    tests: list[tuple[Metric, RowTest | str]] = []
    for metric in compared:
        family = table.findings.family_of(row.row, metric)
        if family is not None and metric.name not in row.comparison.not_compared:
            tests.append((family.metric, family.rows[row.row]))
    return _reason_words(tests)


def _reason_words(tests: Sequence[tuple[Metric, object]]) -> str:
    """The reason that all metrics share, or each reason behind the label of its metric. A test is
    no reason."""
    reasons = [(metric.label, reason) for metric, reason in tests if isinstance(reason, str)]
    distinct_reasons = {reason for _, reason in reasons}
    if len(reasons) == len(tests) and len(distinct_reasons) == 1:
        return distinct_reasons.pop()
    return ", ".join(f"{label}: {reason}" for label, reason in reasons)


def counted(counts: Sequence[int], noun: str) -> str:
    """Such as "1 row", or "3 to 9 seeds"."""
    return f"{spanned(counts)} {plural(noun, max(counts))}"


def tested_sentences(study: Study, findings: StudyFindings) -> str:
    """For a paragraph on methods: of trained rows, and of those that score the weights of each row.
    Empty without a test."""
    trained = _trained_families(findings, study.task.tabled)
    sentences = [_tested_sentence(study, trained)] if trained else []
    for host, families in _families_of_host(findings, study.task.tabled).items():
        which_rows = f"For rows that only score the weights of {host}, "
        sentences.append(_tested_sentence(study, families, which_rows))
    return " ".join(sentences)


def _tested_sentence(study: Study, families: Sequence["Family"], which_rows: str = "") -> str:
    labels = dict.fromkeys(study.task.tested(family.metric).label for family in families)
    rows = counted([family.comparisons for family in families], "row")
    references = list(grouped_by_reference(families))
    reference = references[0] if len(references) == 1 else ITS_REFERENCE
    tests = "t-tests with moderated variances (Smyth, 2004) and Satterthwaite's degrees of freedom"
    if families[0].paired:
        tests = f"{_paired_tests_words(families)} at the common seeds"
    differences = "differences" if which_rows else "Differences"
    sentence = (
        f"{which_rows}{differences} from {listed(references)} in {listed([*labels])} are tested over "
        f"seeds by {tests}, "
        f"with Holm's correction ({rows}, {100 * ALPHA:g} % for the family); "
        "their 95 % intervals use Bonferroni's correction."
    )
    margins = margin_words(families)
    if margins:
        sentence += (
            f" With the stated margin δ ({listed(margins)}), "
            "the intervals also show which rows are "
            f"no worse than {reference} by δ, and which are better by at least δ."
        )
    return sentence


def _paired_tests_words(families: Sequence["Family"]) -> str:
    if _most_comparisons(families) < MODERATED_ROWS:
        return "paired t-tests"
    return "paired t-tests with moderated variances (Smyth, 2004)"
