"""Tests over seeds of a study whose trials lie in several blocks, such as kinds of machine.

A score is taken as the sum of its row's mean, its block's effect and noise. Least squares within
rows estimates the effects: only a row with seeds in several blocks says what a block does. The rest
is the test of ``seed_tests``, with what the estimate costs. A row with seeds in several blocks
loses degrees of freedom. A difference of rows from other blocks gets the error of the effects, to
which each row in several blocks adds its own variance.

Shapes: N scores, R rows, B blocks, K compared rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.seeds.finding import ALPHA, FindingKind, kind_of
from tracking.statistics.seeds.seed_tests import (
    Comparisons,
    Differences,
    differences,
    intervals,
)

ROUNDING = 1e-9  # of shares of seeds
LEAST_DF = 0.5  # of a row's variance; each effect takes one from all rows together
NO_SPREAD = 1e-12  # of the largest score: less is rounding


@dataclass(frozen=True)
class BlockTest:
    """A row minus its reference, without the effects of blocks, in the metric's units."""

    difference: float
    p: float  # with Holm's correction over the rows
    kind: FindingKind


@dataclass(frozen=True)
class _Estimate:
    """What is left of R rows without the effects of B blocks."""

    means_R: Any
    variances_R: Any
    df_R: Any  # of the variances
    counts_R: Any  # of seeds
    shares_RB: Any  # of a row's seeds in each block
    effects_RB: list[Any]  # for each row [B, n]: what its scores add to the estimated effects
    seen_BB: Any  # projects on the differences of blocks that rows show

    def shows(self, row: int, reference: int) -> bool:
        """Whether the rows show what the blocks add to this difference."""
        shares_B = self.shares_RB[row] - self.shares_RB[reference]
        return bool(np.abs(shares_B - shares_B @ self.seen_BB).max() <= ROUNDING)

    def parts(self, row: int, reference: int) -> Any:
        """[R]: the variance of this difference, as parts of the variances of one seed."""
        shares_B = self.shares_RB[row] - self.shares_RB[reference]
        parts_R = np.array([((shares_B @ effects) ** 2).sum() for effects in self.effects_RB])
        for place in (row, reference):
            parts_R[place] += 1 / self.counts_R[place]
        return parts_R


def block_tests(
    metric: Metric,
    values: Mapping[str, Sequence[float]],
    blocks: Mapping[str, Sequence[str]],
    references: Mapping[str, str],
    margin: float | None = None,
) -> dict[str, BlockTest | None]:
    """By row of ``references``, its test. None if the row can't be told from its blocks.

    Args:
        metric: If it is an exponential, the values are logarithms.
        values: By row, the finite scores of its seeds, at least two. With those of references.
        blocks: By row, the block of each of these seeds.
        references: Of each row to test.
        margin: δ, in the metric's units.
    """
    tests: dict[str, BlockTest | None] = dict.fromkeys(references)
    estimate = _estimate([*values.values()], [*blocks.values()])
    if estimate is None:
        return tests
    places = {row: place for place, row in enumerate(values)}
    pairs = {row: (places[row], places[reference]) for row, reference in references.items()}
    pairs = {row: pair for row, pair in pairs.items() if estimate.shows(*pair)}
    if not pairs:
        return tests
    comparisons = Comparisons(*map(np.array, zip(*pairs.values(), strict=True)))
    parts_KR = np.stack([estimate.parts(*pair) for pair in pairs.values()])
    tested = differences(
        estimate.means_R, estimate.variances_R, 1 + estimate.df_R, comparisons, parts_KR
    )
    ends_K3 = _ends(metric, tested, estimate.means_R[comparisons.references])
    for index, row in enumerate(pairs):
        difference, low, high = ends_K3[index].tolist()
        p = float(tested.p_holm[index])
        kind = kind_of(metric, difference, low, high, p <= ALPHA, margin)
        tests[row] = BlockTest(difference, p, kind)
    return tests


def _estimate(
    values: Sequence[Sequence[float]], blocks: Sequence[Sequence[str]]
) -> _Estimate | None:
    """None if a row keeps no degree of freedom, or no score differs from what rows and blocks
    explain."""
    names = sorted({name for row in blocks for name in row})
    members = [np.array([[name == block for name in names] for block in row]) for row in blocks]
    lines = [row - row.mean(axis=0) for row in members]  # of each row, [n, B]
    centered = [np.asarray(row) - np.mean(row) for row in values]
    gram_BB = sum(row.T @ row for row in lines)
    inverse_BB = np.linalg.pinv(gram_BB, hermitian=True)
    effects_RB = [inverse_BB @ row.T for row in lines]
    effects_B = sum(row @ scores for row, scores in zip(effects_RB, centered, strict=True))
    residuals = [scores - row @ effects_B for row, scores in zip(lines, centered, strict=True)]
    counts_R = np.array([len(row) for row in values])
    leverages_R = [np.trace(row @ own) for row, own in zip(lines, effects_RB, strict=True)]
    df_R = counts_R - 1 - np.array(leverages_R)
    largest = max(np.abs(row).max() for row in map(np.asarray, values))
    has_spread = max(np.abs(row).max() for row in residuals) > NO_SPREAD * largest
    if df_R.min() < LEAST_DF or not has_spread:
        return None
    shares_RB = np.array([row.mean(axis=0) for row in members])
    means_R = np.array([np.mean(row) for row in values])
    usual_shares_B = np.concatenate(members).mean(axis=0)
    return _Estimate(
        means_R=means_R - (shares_RB - usual_shares_B) @ effects_B,
        variances_R=np.array([(row**2).sum() for row in residuals]) / df_R,
        df_R=df_R,
        counts_R=counts_R,
        shares_RB=shares_RB,
        effects_RB=effects_RB,
        seen_BB=inverse_BB @ gram_BB,
    )


def _ends(metric: Metric, tested: Differences, reference_means_K: Any) -> Any:
    """[K, 3] difference and the ends of its interval, in the metric's units: of an exponential, at
    the reference's mean."""
    ends_K3 = np.stack([tested.difference, *intervals(tested)], axis=1)
    if not metric.exp_of:
        return ends_K3
    return np.exp(reference_means_K)[:, None] * np.expm1(ends_K3)
