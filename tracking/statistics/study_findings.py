"""What a study found, in one line: how many rows are better than base, worse, no worse, undecided, and not tested."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tracking.statistics.finding import FindingKind
from tracking.words import spanned

if TYPE_CHECKING:
    from tracking.statistics.family import Family

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


def findings_line(families: Mapping[str, "Family"]) -> str:
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.3 BLEU, 9 undecided (3 seeds)".

    Of several metrics that say different things, each stands behind its label. Empty without a row to compare.
    """
    lines = {family.metric.label: _of_metric(family) for family in families.values() if family.rows}
    texts = list(dict.fromkeys(lines.values()))
    if len(texts) <= 1:
        return "".join(texts)
    return "; ".join(f"{label}: {text}" for label, text in lines.items())


def _of_metric(family: "Family") -> str:
    tested = _tested(family)
    untested = _untested(family.rows[row] for row in family.rows if row not in family.tests)
    first, *others = [*tested, *untested]
    number, space, phrase = first.partition(" ")
    noun = "row" if number == "1" else "rows"
    than = f" than {family.reference}"
    parts = [f"{number} {noun}{space}{phrase.format(than=than)}", *(part.format(than="") for part in others)]
    if tested:
        seeds = {family.seeds[row] for row in family.tests}
        parts[len(tested) - 1] += f" ({spanned(seeds)} seeds)"
    return ", ".join(parts)


def _tested(family: "Family") -> list[str]:
    """Such as "2 better{than}": one part for each kind that any row has."""
    kinds = Counter(test.finding.kind for test in family.tests.values())
    margin = "" if family.margin is None else f"{family.margin:g} {family.metric.label}"
    words = {kind: phrase.replace("{margin}", margin) for kind, phrase in PHRASES.items()}
    return [f"{kinds[kind]} {phrase}" for kind, phrase in words.items() if kinds[kind]]


def _untested(reasons: Iterable[object]) -> list[str]:
    """Such as "19 not tested (1 seed)"; many reasons are left to the caption."""
    rows = Counter(UNFINISHED.get(str(reason), str(reason)) for reason in reasons)
    if len(rows) > MOST_REASONS:
        return [f"{rows.total()} not tested"]
    return [f"{number} not tested ({reason})" for reason, number in rows.items()]
