"""Tests over seeds of a study whose trials lie in several blocks, such as kinds of machine.

The test is that of ``seed_tests``, with what it costs to estimate the effects of blocks. A row with
seeds in several blocks loses degrees of freedom. A difference of rows from other blocks gets the
error of the effects, to which each row in several blocks adds its own variance.

Shapes: R rows, K compared rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracking.card import Metric
from tracking.statistics.seeds.block_effects import AdjustedRows, adjusted_rows
from tracking.statistics.seeds.finding import ALPHA, FindingKind, kind_of
from tracking.statistics.seeds.seed_tests import (
    Comparisons,
    Differences,
    differences,
    intervals,
)


@dataclass(frozen=True)
class BlockTest:
    """A row minus its reference, without the effects of blocks, in the metric's units."""

    difference: float
    p: float  # with Holm's correction over the rows
    kind: FindingKind


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
    adjusted = adjusted_rows(values, blocks)
    if adjusted is None:
        return tests
    places = {row: place for place, row in enumerate(values)}
    pairs = {}
    for row, reference in references.items():
        pair = (places[row], places[reference])
        if adjusted.shows(*pair):
            pairs[row] = pair
    if pairs:
        tests.update(_tests_of_pairs(metric, adjusted, pairs, margin))
    return tests


def _tests_of_pairs(
    metric: Metric,
    adjusted: AdjustedRows,
    pairs: Mapping[str, tuple[int, int]],
    margin: float | None,
) -> dict[str, BlockTest]:
    """Each row's test. ``pairs`` are the places of the row and its reference in ``adjusted``."""
    comparisons = Comparisons(*map(np.array, zip(*pairs.values(), strict=True)))
    parts_KR = np.stack([adjusted.parts(*pair) for pair in pairs.values()])
    tested = differences(
        adjusted.means_R, adjusted.variances_R, 1 + adjusted.df_R, comparisons, parts_KR
    )
    ends_K3 = _ends(metric, tested, adjusted.means_R[comparisons.references])
    tests = {}
    for index, row in enumerate(pairs):
        difference, low, high = ends_K3[index].tolist()
        p = float(tested.p_holm[index])
        kind = kind_of(metric, difference, low, high, p <= ALPHA, margin)
        tests[row] = BlockTest(difference, p, kind)
    return tests


def _ends(metric: Metric, tested: Differences, reference_means_K: Any) -> Any:
    """[K, 3] difference and the ends of its interval, in the metric's units: of an exponential, at
    the reference's mean."""
    ends_K3 = np.stack([tested.difference, *intervals(tested)], axis=1)
    if not metric.exp_of:
        return ends_K3
    return np.exp(reference_means_K)[:, None] * np.expm1(ends_K3)
