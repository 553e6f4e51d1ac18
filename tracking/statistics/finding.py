"""What the test of one difference says, as a word, a mark and a sentence. No two findings share any
of them."""

from dataclasses import dataclass
from typing import Literal

from tracking.card import Metric
from tracking.words import time

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
        "undecided: too few seeds to tell, which does not mean that there is no difference",
    ),
}
"""The mark of each kind and its sentence, whose part before a colon is its label."""
HOUR = 3600.0


@dataclass(frozen=True)
class Finding:
    """``margin`` is the δ that the study states, in the metric's units. ``seeds`` and ``hours``
    would decide; or there are ``enough`` seeds already, and chance was against it."""

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
        """Such as "better by at least 0.2" or "undecided: 9 seeds, about 3 h 20 min would
        decide"."""
        if self.enough:
            size = "the size seen" if self.margin is None else f"{self.margin:g}"
            return f"undecided, although {self.seeds} seeds would mark {size} with probability 0.8"
        if self.kind == "undecided":
            return f"undecided: {self.deciding} would decide"
        return sentence(self.kind, margin="δ" if self.margin is None else f"{self.margin:g}")

    @property
    def deciding(self) -> str:
        """Such as "9 seeds, about 3 h 20 min"."""
        seeds = f"{self.seeds} seeds" if self.seeds else "more than 1000 seeds"
        return (
            f"{seeds}, about {time(HOUR * self.hours)}"
            if self.seeds and self.hours is not None
            else seeds
        )


def same_scores(reference: str) -> str:
    """Why a row whose every seed scores as its reference does has no test."""
    return f"same scores as {reference}"


def sentence(kind: FindingKind, reference: str = "", margin: str = "δ") -> str:
    """Such as "worse than base, by less than δ"."""
    return SAYS[kind][1].format(than=f" than {reference}" if reference else "", margin=margin)


def label(kind: FindingKind) -> str:
    """Such as "no worse than δ"."""
    return sentence(kind).partition(":")[0]


def kind_of(
    metric: Metric, difference: float, low: float, high: float, marked: bool, margin: float | None
) -> FindingKind:
    """From the mark, and from the simultaneous interval where the study states a margin. All in the
    metric's units."""
    up = metric.better == "up"
    least = low if up else -high  # the worst that the interval allows, positive if it is better
    if marked and (difference > 0) == up:
        return "better by" if margin is not None and least >= margin else "better"
    if marked:
        return "worse within" if margin is not None and least > -margin else "worse"
    return "no worse" if margin is not None and least > -margin else "undecided"
