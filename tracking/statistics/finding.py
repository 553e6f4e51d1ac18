"""What the test of one difference says, as a word, a mark and a sentence. Each kind of finding has
its own. And what all tests say, in one line."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tracking.card import Metric
from tracking.words import spanned, time

if TYPE_CHECKING:
    from tracking.statistics.family import Family

ALPHA = 0.05
MODERATED_ROWS = 3  # the fewest of a paired family whose variances move towards each other
DRAWS = 10_000  # of a bootstrap over samples
FindingKind = Literal["better by", "better", "worse", "worse within", "no worse", "undecided"]
SAYS: dict[FindingKind, tuple[str, str]] = {
    "better by": ("⇈", "better{than} by at least {margin}"),
    "better": ("▲", "better{than}"),
    "worse": ("▼", "worse{than}"),
    "worse within": ("▽", "worse{than}, by less than {margin}"),
    "no worse": ("◇", "no worse than δ: worse{than} by less than {margin}, if at all"),
    "undecided": (
        "?",
        "undecided: too few seeds to tell; there may still be a difference",
    ),
}
"""The mark of each kind and its sentence, whose part before a colon is its label."""
SECONDS_PER_HOUR = 3600.0
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


@dataclass(frozen=True)
class Finding:
    """``margin`` is the δ that the study states, in the metric's units.

    ``seeds`` would give 80 % power and take ``hours``. With ``enough``, there are that many
    already.
    """

    kind: FindingKind
    margin: float | None = None
    seeds: int | None = None
    hours: float | None = None
    enough: bool = False

    @property
    def mark(self) -> str:
        return SAYS[self.kind][0]

    @property
    def text(self) -> str:
        """Such as "better by at least 0.2" or "undecided: 80 % power needs 9 seeds, about 3 h"."""
        if self.enough:
            size = "this difference" if self.margin is None else f"a difference of {self.margin:g}"
            return f"undecided, although {self.seeds} seeds give 80 % power for {size}"
        if self.kind == "undecided":
            return f"undecided: 80 % power needs {self.needed_seeds}"
        return sentence(self.kind, margin="δ" if self.margin is None else f"{self.margin:g}")

    @property
    def needed_seeds(self) -> str:
        """Such as "9 seeds, about 3 h 20 min"."""
        if not self.seeds:
            return "more than 1000 seeds"
        if self.hours is None:
            return f"{self.seeds} seeds"
        return f"{self.seeds} seeds, about {time(SECONDS_PER_HOUR * self.hours)}"


def same_scores(reference: str) -> str:
    """Why a row has no test if each of its seeds scores as the reference does."""
    return f"same scores as {reference}"


def sentence(kind: FindingKind, reference: str = "", margin: str = "δ") -> str:
    """Such as "worse than base, by less than δ"."""
    than = f" than {reference}" if reference else ""
    return SAYS[kind][1].format(than=than, margin=margin)


def label(kind: FindingKind) -> str:
    """Such as "no worse than δ"."""
    return sentence(kind).partition(":")[0]


def kind_of(
    metric: Metric, difference: float, low: float, high: float, marked: bool, margin: float | None
) -> FindingKind:
    """From the mark, and from the simultaneous interval where the study states a margin. All in the
    metric's units."""
    higher_is_better = metric.better == "up"
    worst_gain = low if higher_is_better else -high  # that the interval allows
    is_within_margin = margin is not None and worst_gain > -margin
    if marked and (difference > 0) == higher_is_better:
        return "better by" if margin is not None and worst_gain >= margin else "better"
    if marked:
        return "worse within" if is_within_margin else "worse"
    return "no worse" if is_within_margin else "undecided"


def findings_line(
    families: Mapping[str, "Family"],
    scoring: Mapping[str, Sequence["Family"]],
    own_references: Mapping[str, Sequence["Family"]] | None = None,
) -> str:
    """Such as "2 rows better than base, 5 worse, 3 no worse than 0.01, 9 undecided (3 seeds)".

    If metrics say different things, each is behind its label. Rows that name their own reference
    follow: "Against wide: 1 row undecided (3 seeds)". Then rows that score the weights of one row:
    "With base's weights: 1 row worse than base (3 seeds)". All arguments are by metric. Empty
    without a row to compare.
    """
    parts = [_metrics_line([*families.values()])]
    own_families = _by_reference((own_references or {}).values())
    for reference, families_of_metrics in own_families.items():
        parts.append(_metrics_line(families_of_metrics, f"against {reference}"))
    for host, host_families in _by_reference(scoring.values()).items():
        changed = [family for family in host_families if not _scores_like_host(family)]
        is_of_some = 0 < len(changed) < len(host_families)
        parts.append(_metrics_line(changed or host_families, f"with {host}'s weights", is_of_some))
    return ". ".join(filter(None, parts))


def _by_reference(families_of_metrics: Iterable[Sequence["Family"]]) -> dict[str, list["Family"]]:
    by_reference: dict[str, list[Family]] = {}
    for families in families_of_metrics:
        for family in families:
            by_reference.setdefault(family.reference, []).append(family)
    return by_reference


def _scores_like_host(family: "Family") -> bool:
    """Whether no row changes this metric, as a beam changes no perplexity."""
    return all(reason == same_scores(family.reference) for reason in family.rows.values())


def _metrics_line(families: Sequence["Family"], whose: str = "", is_of_some: bool = False) -> str:
    """Of one family per metric. A text that all metrics share appears once, unless these are only
    some of the metrics."""
    compared = [family for family in families if family.rows]
    texts = [_family_text(family) for family in compared]
    if not texts:
        return ""
    if len(set(texts)) == 1 and not is_of_some:
        return f"{whose[0].upper()}{whose[1:]}: {texts[0]}" if whose else texts[0]
    labels = Counter(family.metric.label for family in compared)
    labeled_texts = []
    for family, text in zip(compared, texts, strict=True):
        metric = family.metric
        label = metric.label if labels[metric.label] == 1 else f"{metric.label} on {metric.set}"
        if whose:
            label += f" {whose}"
        labeled_texts.append(f"{label}: {text}")
    return "; ".join(labeled_texts)


def _family_text(family: "Family") -> str:
    parts = [*_tested_parts(family), *_untested_parts(family)]
    number, _, words = parts[0].partition(" ")
    noun = "row" if number == "1" else "rows"
    return ", ".join([f"{number} {noun} {words}", *parts[1:]])


def _tested_parts(family: "Family") -> list[str]:
    """Such as "2 better than base", "5 worse": one for each kind that any row has. The seeds end
    the last one."""
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
