"""What blocks of trials, such as kinds of machine, add to scores, and rows without it.

A score is taken as the sum of its row's mean, its block's effect and noise. Least squares within
rows estimates the effects: only a row with seeds in several blocks says what a block does. Such a
row loses degrees of freedom.

Shapes: R rows, B blocks, n seeds of a row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

ROUNDING = 1e-9  # of shares of seeds
LEAST_DF = 0.5  # of a row's variance; each effect takes one from all rows together
NO_SPREAD = 1e-12  # of the largest score: less is rounding


@dataclass(frozen=True)
class AdjustedRows:
    """R rows without the effects of B blocks."""

    means_R: Any
    variances_R: Any
    df_R: Any  # of the variances
    counts_R: Any  # of seeds
    shares_RB: Any  # of a row's seeds in each block
    influences_RBn: list[Any]  # what each score of a row adds to the estimated effects
    seen_BB: Any  # projects on the differences of blocks that rows show

    def shows(self, row: int, reference: int) -> bool:
        """Whether the rows show what the blocks add to this difference."""
        shares_B = self.shares_RB[row] - self.shares_RB[reference]
        return bool(np.abs(shares_B - shares_B @ self.seen_BB).max() <= ROUNDING)

    def parts(self, row: int, reference: int) -> Any:
        """[R]: the variance of this difference, as parts of the variances of one seed."""
        shares_B = self.shares_RB[row] - self.shares_RB[reference]
        parts_R = np.array(
            [((shares_B @ influences_Bn) ** 2).sum() for influences_Bn in self.influences_RBn]
        )
        for place in (row, reference):
            parts_R[place] += 1 / self.counts_R[place]
        return parts_R


def adjusted_rows(
    values: Mapping[str, Sequence[float]], blocks: Mapping[str, Sequence[str]]
) -> AdjustedRows | None:
    """None if a row keeps no degree of freedom, or no score differs from what rows and blocks
    explain.

    Args:
        values: By row, the finite scores of its seeds, at least two.
        blocks: By row, the block of each of these seeds.
    """
    rows = _rows(values, blocks)
    effects = _estimated_effects(rows)
    residuals_Rn = [row.centered_scores - row.centered_members @ effects.effects_B for row in rows]
    df_R = _degrees_of_freedom(rows, effects)
    if df_R.min() < LEAST_DF or not _have_spread(residuals_Rn, rows):
        return None
    return AdjustedRows(
        means_R=_adjusted_means(rows, effects),
        variances_R=np.array([(row_n**2).sum() for row_n in residuals_Rn]) / df_R,
        df_R=df_R,
        counts_R=_counts(rows),
        shares_RB=_shares(rows),
        influences_RBn=effects.influences_RBn,
        seen_BB=effects.seen_BB,
    )


@dataclass(frozen=True)
class _Row:
    """The scores of n seeds, and which of B blocks each seed lies in."""

    scores_n: Any
    members_nB: Any

    @cached_property
    def mean(self) -> Any:
        return np.mean(self.scores_n)

    @cached_property
    def centered_scores(self) -> Any:
        """[n]: the scores less their mean."""
        return self.scores_n - self.mean

    @cached_property
    def shares(self) -> Any:
        """[B]: of the seeds in each block."""
        return self.members_nB.mean(axis=0)

    @cached_property
    def centered_members(self) -> Any:
        """[n, B]: less the row's shares; all zeros if its seeds lie in one block."""
        return self.members_nB - self.shares


def _rows(values: Mapping[str, Sequence[float]], blocks: Mapping[str, Sequence[str]]) -> list[_Row]:
    names = sorted({name for row_blocks in blocks.values() for name in row_blocks})
    rows = []
    for scores, row_blocks in zip(values.values(), blocks.values(), strict=True):
        members_nB = np.array([[name == block for name in names] for block in row_blocks])
        rows.append(_Row(np.asarray(scores), members_nB))
    return rows


@dataclass(frozen=True)
class _Effects:
    """What blocks add to scores; further what ``AdjustedRows`` says of them."""

    effects_B: Any
    influences_RBn: list[Any]
    seen_BB: Any


def _estimated_effects(rows: Sequence[_Row]) -> _Effects:
    """By least squares within rows, through the normal equations. The pseudo-inverse also solves
    them where no row tells two blocks apart."""
    gram_BB = sum(row.centered_members.T @ row.centered_members for row in rows)
    inverse_BB = np.linalg.pinv(gram_BB, hermitian=True)
    influences_RBn = [inverse_BB @ row.centered_members.T for row in rows]
    effects_B = sum(
        influences_Bn @ row.centered_scores
        for influences_Bn, row in zip(influences_RBn, rows, strict=True)
    )
    return _Effects(effects_B, influences_RBn, seen_BB=inverse_BB @ gram_BB)


def _degrees_of_freedom(rows: Sequence[_Row], effects: _Effects) -> Any:
    """[R]: the row's mean takes one, and its part in the estimated effects takes its leverage."""
    leverages_R = [
        np.trace(row.centered_members @ influences_Bn)
        for row, influences_Bn in zip(rows, effects.influences_RBn, strict=True)
    ]
    return _counts(rows) - 1 - np.array(leverages_R)


def _have_spread(residuals_Rn: Sequence[Any], rows: Sequence[_Row]) -> bool:
    """Whether any residual is more than rounding."""
    largest_residual = max(np.abs(row_n).max() for row_n in residuals_Rn)
    largest_score = max(np.abs(row.scores_n).max() for row in rows)
    return bool(largest_residual > NO_SPREAD * largest_score)


def _adjusted_means(rows: Sequence[_Row], effects: _Effects) -> Any:
    """[R]: what each row's mean would be with its seeds spread over the blocks as those of all rows
    together."""
    means_R = np.array([row.mean for row in rows])
    usual_shares_B = np.concatenate([row.members_nB for row in rows]).mean(axis=0)
    return means_R - (_shares(rows) - usual_shares_B) @ effects.effects_B


def _counts(rows: Sequence[_Row]) -> Any:
    """[R]: seeds."""
    return np.array([len(row.scores_n) for row in rows])


def _shares(rows: Sequence[_Row]) -> Any:
    """[R, B]: of a row's seeds in each block."""
    return np.array([row.shares for row in rows])
