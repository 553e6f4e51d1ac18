"""The lines below the table that say what its marks mean, and what the numbers cannot show."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tracking.card import Card
from tracking.statistics.finding import ALPHA, MARKS, Kind
from tracking.statistics.findings import OF_SAMPLES, STOPPED, UNLIKE, Findings
from tracking.statistics.rows import TableRow
from tracking.statistics.unlike import summary
from tracking.table.view import View
from tracking.words import spread

if TYPE_CHECKING:
    from tracking.statistics.family import Family

MEANING: dict[Kind, str] = {
    "better by": "better than {} by at least δ",
    "better": "better than {}",
    "worse": "worse than {}",
    "worse within": "worse than {}, by less than δ",
    "no worse": "no worse than {} by δ or more",
    "undecided": "undecided: too few seeds to tell, which does not mean that there is no difference",
}
MOST_NAMED = 4


def chance_notes(card: Card, rows: Sequence[TableRow], findings: Findings, view: View) -> list[str]:
    """What was tested over seeds, or else over samples; then the rows that are not alike, and those cut short."""
    seeds, samples = _of_seeds(card, rows, findings, view), _of_samples(card, rows, findings)
    told = _verdicts(card, findings) if view.verdicts else ()
    chosen = [f"Only of seeds {_listed(view.seeds)}."] if view.seeds else []
    return [*chosen, *seeds, *samples, *told, *_unlike(rows, findings), *_stopped(rows)]


def _of_seeds(card: Card, rows: Sequence[TableRow], findings: Findings, view: View) -> Iterator[str]:
    tested = [found for metric in card.tabled if (found := findings.seeds.get(metric.name)) and found.tests]
    if tested:
        yield " ".join(_marks(tested, rows, findings.reference, view))
        yield from filter(None, (" ".join(_of_metric(found, rows)) for found in tested))
        yield from filter(None, [findings.later_seeds])
    if (tested or any(row.seeds > 1 for row in rows)) and (left := _untested(card, rows, findings)):
        yield f"Not tested over seeds: {left}."


def _marks(tested: Sequence["Family"], rows: Sequence[TableRow], reference: str, view: View) -> Iterator[str]:
    """The family, what each mark in the table means, and what brackets are."""
    family = _sizes([len(found.tests) for found in tested], "row")
    verb = "is" if family == "1 row" else "are"
    seeds = _sizes([found.seeds[row] for found in tested for row in found.tests], "seed")
    base = _sizes([found.seeds[reference] for found in tested], "seed")
    yield f"Over seeds, {family} of {seeds} {verb} compared with {reference} of {base}, each metric for itself:"
    yield "t-test with moderated variances, at 5 % over all rows (Holm)."
    shown = {row.row for row in rows}
    kinds = {test.finding.kind for found in tested for row, test in found.tests.items() if row in shown}
    yield " ".join(f"{MARKS[kind]}: {words.format(reference)}." for kind, words in MEANING.items() if kind in kinds)
    if margins := [f"{found.metric.label} {margin:g}" for found in tested if (margin := _margin(found)) is not None]:
        yield f"δ: {', '.join(margins)}, as the study states (sweep.margin)."
    if view.intervals:
        yield f"[ ]: 95 % interval of Δ, over seeds of row and {reference}, adjusted over all rows (Bonferroni)."
        odd = [row for found in tested for row, test in found.tests.items() if test.unlike_its_interval]
        if odd:
            listed = ", ".join(dict.fromkeys(odd))
            yield f"Marked although the interval holds 0, since intervals are adjusted more strictly: {listed}."


def _margin(found: "Family") -> float | None:
    return next((test.finding.margin for test in found.tests.values()), None)


def _of_metric(found: "Family", rows: Sequence[TableRow]) -> Iterator[str]:
    """What could have been seen, and what would decide, such as "PPL: a true difference of 0.2 is marked …"."""
    metric = found.metric
    if found.detectable:
        ends = dict.fromkeys(spread(end, metric.places) for end in found.detectable)
        yield f"{metric.label}: a true difference of {' to '.join(ends)} is marked with probability 0.8."
    deciding: dict[str, list[str]] = {}
    for row in rows:
        test = found.tests.get(row.row)
        if test and test.finding.kind == "undecided":
            deciding.setdefault(test.finding.deciding, []).append(row.row)
    if deciding:
        size = "δ" if _margin(found) is not None else "the size seen"
        named = "; ".join(f"{', '.join(of)}: {seeds}" for seeds, of in deciding.items())
        yield f"Undecided; a difference of {size} would be marked with probability 0.8 by: {named}."


def _untested(card: Card, rows: Sequence[TableRow], findings: Findings) -> str:
    """The shown rows by their reason, such as "big, base_2 (2 seeds)"; a reason of some metrics names them."""
    reasons = {row.row: why for row in rows if (why := _why_untested(card, row, findings))}
    of_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.row in reasons:
            of_reason.setdefault(reasons[row.row], []).append(row.row)
    named = {why: ", ".join(of) if len(of) <= MOST_NAMED else f"{len(of)} rows" for why, of in of_reason.items()}
    return ", ".join(f"{of} ({why})" for why, of in named.items())


def _why_untested(card: Card, row: TableRow, findings: Findings) -> str:
    """Such as "2 seeds", or "accuracy: no variance over seeds" where another metric is tested."""
    tested = {metric.label: of for metric in card.tabled if (of := findings.seeds.get(metric.name))}
    reasons = {label: why for label, of in tested.items() if (why := of.untested.get(row.row))}
    if len(reasons) == len(tested) and len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return ", ".join(f"{label}: {why}" for label, why in reasons.items())


def _of_samples(card: Card, rows: Sequence[TableRow], findings: Findings) -> Iterator[str]:
    """Only where seeds say nothing."""
    tests = [
        test
        for row in rows
        for metric in card.tabled
        if not findings.test(row, metric) and (test := findings.sample_test(row, metric))
    ]
    if not tests:
        return
    noun, how = card.sample, "paired bootstrap, Holm, p ≤ 0.05"
    shown = any(test.p_holm <= ALPHA for test in tests)
    mark = f"{OF_SAMPLES}: the row differs from {findings.reference}" if shown else "No row differs"
    yield f"{mark} over the {noun}s of its one seed ({how}). This says nothing about seeds: another may differ as much."


def _unlike(rows: Sequence[TableRow], findings: Findings) -> Iterator[str]:
    shown = {row.row: findings.unlike[row.row] for row in rows if findings.unlike.get(row.row)}
    if shown:
        yield f"{UNLIKE}: the row differs from most trials in more than its change: {'; '.join(summary(shown))}."


def _stopped(rows: Sequence[TableRow]) -> Iterator[str]:
    named = [f"{row.row} (seed{'s' * (len(row.stopped) > 1)} {_listed(row.stopped)})" for row in rows if row.stopped]
    if named:
        yield f"{STOPPED}: training ended before its planned steps; means include these seeds: {', '.join(named)}."


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _verdicts(card: Card, findings: Findings) -> Iterator[str]:
    for metric in card.tabled:
        given = findings.verdicts.get(metric.name)
        yield from given.lines() if given else ()


def _sizes(counts: Sequence[int], noun: str) -> str:
    """Such as "1 row", or "3 to 9 seeds"."""
    least, most = min(counts), max(counts)
    return f"{least} to {most} {noun}s" if least < most else f"{most} {noun}{'s' * (most != 1)}"
