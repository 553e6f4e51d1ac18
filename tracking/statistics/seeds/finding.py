"""What the test of one difference says, as a word, a mark, a sentence and a phrase. Each kind of
finding has its own."""

from dataclasses import dataclass
from typing import Literal

from tracking.card import Metric
from tracking.words import time

ALPHA = 0.05
MODERATED_ROWS = 3  # the fewest of a paired family whose variances move towards each other
LEAST_SEEDS = 3  # of a row that is tested over seeds
DRAWS = 10_000  # of a bootstrap over samples
FindingKind = Literal["better by", "better", "worse", "worse within", "no worse", "undecided"]
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class FindingWords:
    """How a kind of finding is shown: its mark, a sentence that begins with its label, and a phrase
    behind a count of rows.

    ``{than}`` stands for the reference, and ``{margin}`` for δ. The label ends at a colon.
    """

    mark: str
    sentence: str
    phrase: str


FINDING_WORDS: dict[FindingKind, FindingWords] = {
    "better by": FindingWords(
        mark="⇈",
        sentence="better{than} by at least {margin}",
        phrase="better{than} by at least {margin}",
    ),
    "better": FindingWords(
        mark="▲",
        sentence="better{than}",
        phrase="better{than}",
    ),
    "worse": FindingWords(
        mark="▼",
        sentence="worse{than}",
        phrase="worse{than}",
    ),
    "worse within": FindingWords(
        mark="▽",
        sentence="worse{than}, by less than {margin}",
        phrase="worse{than} by less than {margin}",
    ),
    "no worse": FindingWords(
        mark="◇",
        sentence="no worse than δ: worse{than} by less than {margin}, if at all",
        phrase="no worse than {margin}",
    ),
    "undecided": FindingWords(
        mark="?",
        sentence="undecided: there may still be a difference",
        phrase="undecided",
    ),
}


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
        return FINDING_WORDS[self.kind].mark

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
    return FINDING_WORDS[kind].sentence.format(than=_than(reference), margin=margin)


def phrase(kind: FindingKind, reference: str, margin: str) -> str:
    """Such as "worse than base by less than 0.2 BLEU", behind a count of rows."""
    return FINDING_WORDS[kind].phrase.format(than=_than(reference), margin=margin)


def _than(reference: str) -> str:
    return f" than {reference}" if reference else ""


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
