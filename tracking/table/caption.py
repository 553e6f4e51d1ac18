"""The lines below the table: how its numbers came about, what its marks mean, and what the numbers cannot show."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tracking.card import Card
from tracking.statistics.finding import SAYS, sentence
from tracking.statistics.findings import MIXED_SETTINGS, NONE, OF_SAMPLES, STOPPED, UNLIKE, Findings
from tracking.statistics.rows import TableRow, decode_of
from tracking.statistics.unlike_trials import summary
from tracking.table.columns import COST_LABELS, PLAIN, View, setting_words
from tracking.words import listed, spanned, spread

if TYPE_CHECKING:
    from tracking.statistics.family import Family

MOST_NAMED = 4
WHAT_TO_DO = "To compare like with like, train such rows again under the conditions of the others."


def caption(card: Card, rows: Sequence[TableRow], findings: Findings = NONE, view: View = PLAIN, last: str = "") -> str:
    """An explanation of the columns, with the settings for scoring, the number of seeds and what was tested.

    ``last`` ends it."""
    notes = [f"{metric.label}: {metric.note}" for metric in card.tabled if metric.note]
    costs = [f"{COST_LABELS[name]}: {_cost_note(card, rows, name)}" for name in ("seconds", "params", "flops")]
    spread = ["±: standard deviation over seeds"] * any(value is not None for row in rows for value in row.sd.values())
    others = " that did not diverge" * any(row.diverged for row in rows)
    about = [
        *_measured(card, rows),
        *notes,
        *costs,
        f"Δ: difference from {findings.reference}, between means over all seeds of both{others}",
        *spread,
    ]
    text = " ".join(filter(None, [f"{'; '.join(about)}.", card.published_note, seeds_note(rows, findings)]))
    names = scaling_note(card, {row.row: row.before_scaling for row in rows if row.before_scaling})
    sizes = size_note({row.row: row.size for row in rows if row.size})
    return "\n".join(filter(None, [text, *_chance_notes(card, rows, findings, view), sizes, names])) + last


def size_note(sizes: Mapping[str, str]) -> str:
    """The rows whose model is of another size than base's, although they change no size. Empty without such rows."""
    return f"Not of base's size: {'; '.join(f'{row} has {words}' for row, words in sizes.items())}." if sizes else ""


def scaling_note(card: Card, changes: Mapping[str, str]) -> str:
    """What rows are before scaling, by name: it explains names such as c_layers_2. Empty without rows."""
    words = "; ".join(f"{row} is {change}" for row, change in changes.items())
    size = "At the paper's size" if card.published_note else "Before scaling"
    return f"{size} {words}." if words else ""


def seeds_note(rows: Sequence[TableRow], findings: Findings = NONE) -> str:
    """The number of seeds behind each row, and the limits that it sets on conclusions."""
    counts = sorted({row.seeds for row in rows if row.seeds})
    if not counts:
        return "All finished seeds diverged." if any(row.diverged for row in rows) else "No seed is finished."
    text = f"Seeds per row: {spanned(counts)}."
    return text if counts[0] > 1 else f"{text} With one seed: differences not tested."


def _measured(card: Card, rows: Sequence[TableRow]) -> list[str]:
    """Such as "accuracy and loss: measured on test, threshold 0.5", for each set."""
    words = setting_words(card, decode_of(rows)) or [MIXED_SETTINGS] * any(row.mixed_decode for row in rows)
    labels = {name: [metric.label for metric in card.tabled if metric.set == name] for name in card.scored_sets}
    return [f"{listed(of_set)}: measured on {', '.join([name, *words])}" for name, of_set in labels.items()]


def _cost_note(card: Card, rows: Sequence[TableRow], name: str) -> str:
    """A cost that no task can tell is unknown."""
    unknown = [getattr(row, name) is None for row in rows if row.seeds]
    if unknown and all(unknown):
        return "unknown"
    note = card.cost_notes.get(name, "computed")
    return f"{note}, unknown where empty" if any(unknown) else note


def _chance_notes(card: Card, rows: Sequence[TableRow], findings: Findings, view: View) -> list[str]:
    """What was tested over seeds, or else over samples; then the rows that are not alike, and those cut short."""
    seeds, samples = _of_seeds(card, rows, findings, view), _of_samples(card, rows, findings, view)
    told = _verdicts(card, findings) if view.verdicts else ()
    chosen = [f"Only of seeds {_numbers(view.seeds)}; p values do not account for that choice."] if view.seeds else []
    return [*chosen, *seeds, *samples, *told, *_unlike(rows, findings), *_stopped(rows)]


def _of_seeds(card: Card, rows: Sequence[TableRow], findings: Findings, view: View) -> Iterator[str]:
    tested = [found for metric in card.tabled if (found := findings.families.get(metric.name)) and found.tests]
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
    yield " ".join(f"{mark}: {sentence(kind, reference)}." for kind, (mark, _) in SAYS.items() if kind in kinds)
    if down := [found.metric.label for found in tested if found.metric.better == "down"]:
        yield f"Marks say better or worse, not up or down: lower {listed(down)} is better."
    if margins := [f"{found.metric.label} {margin:g}" for found in tested if (margin := found.margin) is not None]:
        yield f"δ: {', '.join(margins)}, as the study states (sweep.margin)."
    if view.intervals:
        yield f"[ ]: 95 % interval of Δ, over seeds of row and {reference}, adjusted over all rows (Bonferroni)."
        odd = [row for each in tested for row, of in each.tests.items() if row in shown and of.unlike_its_interval]
        if odd:
            named = ", ".join(dict.fromkeys(odd))
            yield f"Marked although the interval holds 0, since intervals are adjusted more strictly: {named}."


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
        size = "δ" if found.margin is not None else "the size seen"
        named = "; ".join(f"{seeds} ({', '.join(of)})" for seeds, of in deciding.items())
        would = (
            f"Undecided; a difference of {size} would be marked with probability 0.8 if row and {found.reference} had"
        )
        yield f"{would} {named}."


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
    tested = {metric.label: of for metric in card.tabled if (of := findings.families.get(metric.name))}
    reasons = {label: why for label, of in tested.items() if (why := of.untested.get(row.row))}
    if len(reasons) == len(tested) and len(set(reasons.values())) == 1:
        return next(iter(reasons.values()))
    return ", ".join(f"{label}: {why}" for label, why in reasons.items())


def _of_samples(card: Card, rows: Sequence[TableRow], findings: Findings, view: View) -> Iterator[str]:
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
    shown = any(test.marked for test in tests)
    mark = f"{OF_SAMPLES}: the row differs from {findings.reference}" if shown else "No row differs"
    yield f"{mark} over the {noun}s of its one seed ({how}). This says nothing about seeds: another may differ as much."
    if view.intervals:
        yield f"[ ]: 95 % interval of Δ over these {noun}s, of each row alone."


def _unlike(rows: Sequence[TableRow], findings: Findings) -> Iterator[str]:
    shown = {row.row: findings.unlike[row.row] for row in rows if findings.unlike.get(row.row)}
    if shown:
        told = f"{UNLIKE}: the row differs from most trials in more than its change: {'; '.join(summary(shown))}."
        yield f"{told} {WHAT_TO_DO}"


def _stopped(rows: Sequence[TableRow]) -> Iterator[str]:
    named = [f"{row.row} (seed{'s' * (len(row.stopped) > 1)} {_numbers(row.stopped)})" for row in rows if row.stopped]
    if named:
        yield f"{STOPPED}: training ended before its planned steps; means include these seeds: {', '.join(named)}."


def _numbers(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _verdicts(card: Card, findings: Findings) -> Iterator[str]:
    for metric in card.tabled:
        given = findings.verdicts.get(metric.name)
        yield from given.lines() if given else ()


def _sizes(counts: Sequence[int], noun: str) -> str:
    """Such as "1 row", or "3 to 9 seeds"."""
    return f"{spanned(counts)} {noun}{'s' * (max(counts) != 1)}"
