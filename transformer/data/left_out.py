"""Training pairs that are left out: counted, reported, and refused if too few pairs remain."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from transformer.data.text_file import SentencePair
from transformer.schema import Problem, RefusedError

LEAST = 0.1
"""The share of training pairs that must remain; with fewer, the settings do not fit the text."""


@dataclass(frozen=True)
class PairCounts:
    """Training pairs: used, and left out because a side is blank or longer than ``model.max_positions``.

    ``blank`` is None if it is unknown, since an earlier version prepared the text without counting blank pairs.
    """

    train: int
    blank: int | None
    too_long: int

    @property
    def given(self) -> int:
        return self.train + self.left_out

    @property
    def left_out(self) -> int:
        return (self.blank or 0) + self.too_long

    def notices(self, max_positions: int) -> Iterator[str]:
        """The notice for the user, if any pairs are left out."""
        if self.left_out:
            reasons = [f"{self.blank} blank"] * bool(self.blank)
            reasons += [f"{self.too_long} longer than model.max_positions ({max_positions})"] * bool(self.too_long)
            yield f"{self.left_out} of {self.given} training pairs are left out: {', '.join(reasons)}"


def without_blank(pairs: list[SentencePair]) -> list[SentencePair]:
    """The training pairs with text on both sides. Raises RefusedError if too few remain."""
    left = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if len(left) < _least(len(pairs)):
        found = f"has text on both sides in only {len(left)} of {len(pairs)} pairs"
        raise RefusedError([Problem("data.train", found, "at least a tenth of the pairs must have text on both sides")])
    return left


def too_few_fit(longest_sides: npt.NDArray[np.int64], blank: int | None, max_positions: int) -> Iterator[Problem]:
    """A problem if ``max_positions`` leaves too few training pairs."""
    fit = int((longest_sides <= max_positions).sum())
    counts = PairCounts(fit, blank, len(longest_sides) - fit)
    least = _least(counts.given)
    if fit < least:
        needed = int(np.sort(longest_sides)[least - 1])
        found = f"is {max_positions}; {'; '.join(counts.notices(max_positions))}"
        yield Problem("model.max_positions", found, f"must be at least {needed}, which keeps a tenth of them")


def _least(given: int) -> int:
    """The number of pairs that must remain."""
    return max(1, ceil(given * LEAST))
