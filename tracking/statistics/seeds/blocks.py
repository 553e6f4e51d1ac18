"""Tests over seeds of a study whose trials lie in several blocks, such as kinds of machine.

A score is taken as the sum of its row's mean, its block's effect and noise. Least squares within
rows estimates the effects: only a row with seeds in several blocks says what a block does. The rest
is the test of ``seed_tests``, with what the estimate costs: fewer degrees of freedom, and a larger
error for a row whose seeds lie in other blocks than its reference's.
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
    exponential_difference,
    exponential_intervals,
    intervals,
)

ROUNDING = 1e-9  # of shares of seeds


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
    seeds_R: Any  # one more than each variance has degrees of freedom
    counts_R: Any  # the real seeds
    shares_RB: Any  # of a row's seeds in each block
    inverse_BB: Any  # the pseudo-inverse of X'X, where X has a line for each score
    seen_BB: Any  # projects on the differences of blocks that rows show

    def further_part(self, row: int, reference: int) -> float | None:
        """The variance of what the effects add to this difference, as a part of one seed's. None if
        no row shows what they add."""
        shares_B = self.shares_RB[row] - self.shares_RB[reference]
        if np.abs(shares_B - shares_B @ self.seen_BB).max() > ROUNDING:
            return None
        return float(shares_B @ self.inverse_BB @ shares_B)


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
    parts_R = 1 / estimate.counts_R
    compared = []
    for row, reference in references.items():
        further_part = estimate.further_part(places[row], places[reference])
        if further_part is not None:
            parts_R[places[row]] += further_part
            compared.append(row)
    if not compared:
        return tests
    comparisons = Comparisons(
        np.array([places[row] for row in compared]),
        np.array([places[references[row]] for row in compared]),
    )
    tested = differences(
        estimate.means_R, estimate.variances_R, estimate.seeds_R, comparisons, parts_R
    )
    ends_K3 = _ends(metric, tested, estimate.means_R, comparisons)
    for index, row in enumerate(compared):
        difference, low, high = ends_K3[index].tolist()
        p = float(tested.p_holm[index])
        kind = kind_of(metric, difference, low, high, p <= ALPHA, margin)
        tests[row] = BlockTest(difference, p, kind)
    return tests


def _estimate(
    values: Sequence[Sequence[float]], blocks: Sequence[Sequence[str]]
) -> _Estimate | None:
    """None if the effects take all degrees of freedom."""
    names = sorted({name for row in blocks for name in row})
    members = [np.array([[name == block for name in names] for block in row]) for row in blocks]
    shares_RB = np.array([row.mean(axis=0) for row in members])
    lines_NB = np.concatenate([row - row.mean(axis=0) for row in members])
    scores_N = np.concatenate([np.asarray(row) - np.mean(row) for row in values])
    inverse_BB = np.linalg.pinv(lines_NB.T @ lines_NB, hermitian=True)
    effects_B = inverse_BB @ lines_NB.T @ scores_N
    counts_R = np.array([len(row) for row in values], float)
    df = (counts_R - 1).sum()
    df_left = df - np.linalg.matrix_rank(lines_NB)
    if df_left < 1:
        return None
    df_R = (counts_R - 1) * df_left / df
    residuals_N = scores_N - lines_NB @ effects_B
    starts_R = np.concatenate([[0], np.cumsum(counts_R)[:-1]]).astype(int)
    return _Estimate(
        means_R=np.array([np.mean(row) for row in values])
        - (shares_RB - np.concatenate(members).mean(axis=0)) @ effects_B,
        variances_R=np.add.reduceat(residuals_N**2, starts_R) / df_R,
        seeds_R=1 + df_R,
        counts_R=counts_R,
        shares_RB=shares_RB,
        inverse_BB=inverse_BB,
        seen_BB=inverse_BB @ lines_NB.T @ lines_NB,
    )


def _ends(metric: Metric, tested: Differences, means_R: Any, comparisons: Comparisons) -> Any:
    """[K, 3] difference and the ends of its interval, in the metric's units."""
    if not metric.exp_of:
        return np.stack([tested.difference, *intervals(tested)], axis=1)
    low, high = exponential_intervals(tested, means_R, comparisons=comparisons)
    row_means = means_R[comparisons.rows]
    difference = exponential_difference(row_means, means_R[comparisons.references])
    return np.stack([difference, low, high], axis=1)
