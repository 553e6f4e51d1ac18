"""What a study found, in one line: how many rows are better than base, worse, no worse, undecided, and not tested."""

from collections import Counter
from collections.abc import Mapping
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
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.01, 9 undecided (3 seeds)".

    Of several metrics that say different things, each stands behind its label. Empty without a row to compare.
    """
    compared = [family for family in families.values() if family.rows]
    texts = [_of_metric(family) for family in compared]
    if len(set(texts)) <= 1:
        return "".join(texts[:1])
    labels = Counter(family.metric.label for family in compared)
    named = []
    for family, text in zip(compared, texts, strict=True):
        metric = family.metric
        label = metric.label if labels[metric.label] == 1 else f"{metric.label} on {metric.set}"
        named.append(f"{label}: {text}")
    return "; ".join(named)


def _of_metric(family: "Family") -> str:
    parts = [*_tested_parts(family), *_untested_parts(family)]
    number, _, words = parts[0].partition(" ")
    noun = "row" if number == "1" else "rows"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _tested_parts(family: "Family") -> list[str]:
    """Such as "2 better than base", "5 worse": one for each kind that any row has, and after the last one the seeds."""
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
