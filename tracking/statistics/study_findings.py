"""What a study found, in one line: how many rows are better than base, worse, no worse, undecided,
and not tested."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tracking.statistics.finding import FindingKind, same_scores
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


def findings_line(
    families: Mapping[str, "Family"], scoring: Mapping[str, Sequence["Family"]]
) -> str:
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.01, 9 undecided (3 seeds)".

    Of several metrics that say different things, each stands behind its label. Rows that score the
    weights of one row follow: "With base's weights: 1 row worse than base (3 seeds)". ``families``
    and ``scoring`` are by metric. Empty without a row to compare.
    """
    parts = [_metrics_line([*families.values()])]
    scoring_families = [family for of_metric in scoring.values() for family in of_metric]
    for host in dict.fromkeys(family.reference for family in scoring_families):
        of_host = [family for family in scoring_families if family.reference == host]
        changed = [family for family in of_host if not _scores_like_host(family)]
        parts.append(
            _metrics_line(
                changed or of_host, f"with {host}'s weights", 0 < len(changed) < len(of_host)
            )
        )
    return ". ".join(filter(None, parts))


def _scores_like_host(family: "Family") -> bool:
    """Whether no row changes this metric, as a beam changes no perplexity."""
    return all(reason == same_scores(family.reference) for reason in family.rows.values())


def _metrics_line(families: Sequence["Family"], whose: str = "", is_of_some: bool = False) -> str:
    """Of one family for each metric; what all metrics say is said once, but not if they are only
    some metrics."""
    compared = [family for family in families if family.rows]
    texts = [_of_metric(family) for family in compared]
    if not texts:
        return ""
    if len(set(texts)) == 1 and not is_of_some:
        return f"{whose[0].upper()}{whose[1:]}: {texts[0]}" if whose else texts[0]
    labels = Counter(family.metric.label for family in compared)
    named = []
    for family, text in zip(compared, texts, strict=True):
        metric = family.metric
        label = metric.label if labels[metric.label] == 1 else f"{metric.label} on {metric.set}"
        if whose:
            label += f" {whose}"
        named.append(f"{label}: {text}")
    return "; ".join(named)


def _of_metric(family: "Family") -> str:
    parts = [*_tested_parts(family), *_untested_parts(family)]
    number, _, words = parts[0].partition(" ")
    noun = "row" if number == "1" else "rows"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _tested_parts(family: "Family") -> list[str]:
    """Such as "2 better than base", "5 worse": one for each kind that any row has, and after the
    last one the seeds."""
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
