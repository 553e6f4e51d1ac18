"""What the test of one difference says, as a word, a mark and a sentence. No two findings share any of them."""

from dataclasses import dataclass
from typing import Literal

from tracking.card import Metric

ALPHA = 0.05
Kind = Literal["better by", "better", "worse", "worse within", "no worse", "undecided"]
MARKS: dict[Kind, str] = {
    "better by": "⇈",
    "better": "▲",
    "worse": "▼",
    "worse within": "▽",
    "no worse": "◇",
    "undecided": "?",
}
HOUR = 3600.0


@dataclass(frozen=True)
class Finding:
    """``margin`` is the δ that the study states, in the metric's units. ``seeds`` and ``hours`` would decide; or
    there are ``enough`` seeds already, and chance was against it."""

    kind: Kind
    margin: float | None = None
    seeds: int | None = None
    hours: float | None = None
    enough: bool = False

    @property
    def mark(self) -> str:
        return MARKS[self.kind]

    @property
    def text(self) -> str:
        """Such as "better", "no worse than 0.2" or "undecided: 9 seeds, about 3 hours would decide"."""
        if self.enough:
            size = "the size seen" if self.margin is None else f"{self.margin:g}"
            return f"undecided, although {self.seeds} seeds would mark {size} with probability 0.8"
        if self.kind == "undecided":
            return f"undecided: {self.deciding} would decide"
        return says(self.kind, self.margin)

    @property
    def deciding(self) -> str:
        """Such as "9 seeds, about 3 hours"."""
        seeds = f"{self.seeds} seeds" if self.seeds else "more than 1000 seeds"
        return f"{seeds}, about {_hours(self.hours)}" if self.seeds and self.hours is not None else seeds


def says(kind: Kind, margin: float | None) -> str:
    """The sentence of a kind, with δ as a number where it is one."""
    amount = "δ" if margin is None else f"{margin:g}"
    match kind:
        case "better by":
            return f"better by at least {amount}"
        case "worse within":
            return f"worse, by less than {amount}"
        case "no worse":
            return f"no worse than {amount}"
        case _:
            return kind


def kind_of(metric: Metric, difference: float, low: float, high: float, marked: bool, margin: float | None) -> Kind:
    """From the mark, and from the simultaneous interval where the study states a margin. All in the metric's units."""
    up = metric.better == "up"
    least = low if up else -high  # the worst that the interval allows, positive if it is better
    if marked and (difference > 0) == up:
        return "better by" if margin is not None and least >= margin else "better"
    if marked:
        return "worse within" if margin is not None and least > -margin else "worse"
    return "no worse" if margin is not None and least > -margin else "undecided"


def _hours(hours: float) -> str:
    if hours < 1:
        minutes = max(1, round(60 * hours))
        return f"{minutes} minute{'s' * (minutes > 1)}"
    return f"{hours:.2g} hours" if hours < 9.95 else f"{hours:.0f} hours"
