"""Training pairs that are left out: counted, reported, and refused if too few pairs remain."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from transformer.data.text_file import ONE_SENTENCE
from transformer.faults import Fault, FaultyError

LEAST = 0.1
"""The share of training pairs that must remain; with fewer, the settings do not fit the text."""
ADVISED = 2048
"""The most positions that are ever advised; a longer line is hardly one sentence."""


@dataclass(frozen=True)
class PairCounts:
    """Training pairs: used, and left out because a side is blank or longer than ``model.max_positions``."""

    train: int
    blank: int
    too_long: int

    @property
    def given(self) -> int:
        return self.train + self.left_out

    @property
    def left_out(self) -> int:
        return self.blank + self.too_long

    def notices(self, max_positions: int) -> Iterator[str]:
        """The notice for the user, if any pairs are left out."""
        if self.left_out:
            reasons = [f"{self.blank} blank"] * bool(self.blank)
            reasons += [f"{self.too_long} longer than model.max_positions ({max_positions})"] * bool(self.too_long)
            yield f"{self.left_out} of {self.given} training pairs are left out: {', '.join(reasons)}"


def refuse_incomplete(name: str, complete: int, given: int) -> None:
    """Raises FaultyError if too few pairs of a set have text on both sides: of train a tenth, of others one."""
    least, words = (_least(given), "at least a tenth of the pairs") if name == "train" else (1, "some pair")
    if complete < least:
        found = f"has text on both sides in only {complete} of {given} pairs"
        raise FaultyError(Fault(f"data.{name}", found, f"{words} must have text on both sides"))


def too_few_fit(longest_sides: npt.NDArray[np.int64], blank: int, max_positions: int, longest: str) -> Iterator[Fault]:
    """A fault if ``max_positions`` leaves too few training pairs; ``longest`` describes the longest of them."""
    fit = int((longest_sides <= max_positions).sum())
    counts = PairCounts(fit, blank, len(longest_sides) - fit)
    least = _least(counts.given)
    if fit < least:
        needed = int(np.sort(longest_sides)[least - 1])
        found = f"is {max_positions}; {'; '.join(counts.notices(max_positions))}"
        allowed = f"must be at least {needed}, which keeps a tenth of them"
        if needed > ADVISED:
            allowed = f"{ONE_SENTENCE} {longest}; a tenth of the pairs has at most {needed}"
        yield Fault("model.max_positions", found, allowed)


def _least(given: int) -> int:
    """The number of pairs that must remain."""
    return max(1, ceil(given * LEAST))
