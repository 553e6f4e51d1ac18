"""How well our order of rows agrees with a published one: Spearman's and Kendall's rank correlation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 10_000
SEED = 20_170_612
AT_ONCE = 2_000_000  # pairs compared at one time: 16 MB
LEAST_ROWS = 3


@dataclass(frozen=True)
class Correlation:
    """A rank correlation from −1 to 1, with the 95 % interval of a parametric bootstrap."""

    value: float
    low: float
    high: float

    @property
    def text(self) -> str:
        return f"{_signed(self.value)} [{_signed(self.low)}, {_signed(self.high)}]"


@dataclass(frozen=True)
class RankAgreement:
    rows: int
    spearman: Correlation
    kendall: Correlation

    @property
    def text(self) -> str:
        """One line for people."""
        return (
            f"Order of the {self.rows} tested rows against the published order: Spearman's ρ {self.spearman.text}, "
            f"Kendall's τ {self.kendall.text} (95 % intervals: {DRAWS:,} parametric bootstrap draws of our means)."
        )


def rank_agreement(ours: Sequence[float], errors: Sequence[float], published: Sequence[float]) -> RankAgreement | None:
    """Between our means and the published values of the same rows, with the standard error of each mean.

    Bootstrap: each mean is drawn from a normal distribution around ours, with a fixed seed; percentiles 2.5 and 97.5.
    Chance in the published values is unknown and left out. None with fewer than 3 rows, or if all values are equal.
    """
    theirs, means = np.asarray(published, float), np.asarray(ours, float)
    if len(means) < LEAST_ROWS or np.ptp(theirs) == 0 or np.ptp(means) == 0:
        return None
    drawn = means + np.asarray(errors, float) * np.random.default_rng(SEED).standard_normal((DRAWS, len(means)))
    at_once = max(1, AT_ONCE // len(means) ** 2)
    parts = [_both(drawn[start : start + at_once], theirs) for start in range(0, DRAWS, at_once)]
    found, of_draws = _both(means[None], theirs), np.concatenate(parts, axis=1)
    low, high = np.percentile(of_draws, [2.5, 97.5], axis=1)
    spearman, kendall = (Correlation(*map(float, (found[i, 0], low[i], high[i]))) for i in (0, 1))
    return RankAgreement(len(means), spearman, kendall)


def _both(rows: Any, theirs: Any) -> Any:
    """Spearman's ρ and Kendall's τ-b of each line of ``rows`` (draws × rows), as 2 × draws."""
    above = np.sign(rows[:, :, None] - rows[:, None, :])  # draws × rows × rows
    above_theirs = np.sign(theirs[:, None] - theirs[None, :])
    kendall = (above * above_theirs).sum((1, 2)) / np.sqrt((above**2).sum((1, 2)) * (above_theirs**2).sum())
    ranks, their_ranks = above.sum(2), above_theirs.sum(1)  # how many are below, less how many are above
    spearman = ranks @ their_ranks / np.sqrt((ranks**2).sum(1) * (their_ranks**2).sum())
    return np.stack([spearman, kendall])


def _signed(value: float) -> str:
    text = f"{abs(value):.2f}"
    return text if value >= 0 or text == "0.00" else f"−{text}"
