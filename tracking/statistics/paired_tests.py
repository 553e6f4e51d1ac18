"""Tests over differences of each seed, for rows that share luck seed by seed, such as rows that
score one's weights.

A row and its reference are compared at the seeds that both have. Variances of rows move towards
each other as in `seed_tests`, with three bounds that few seeds need; docs/statistics.md says what
they cost.

- With fewer than three rows no variance moves: a plain paired t.
- Rows that differ alike seed by seed know one variance together, not one each. So the degrees of freedom that a row
  gains end at those of as many independent rows as the differences are worth.
- A row that varies more than its moderated variance keeps its own, and gains fewer degrees of freedom in proportion.

Shapes: … any studies, K compared rows, N seeds. A seed that a row lacks is NaN.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.finding import ALPHA, MODERATED_ROWS
from tracking.statistics.seed_tests import (
    CANDIDATES,
    DRAWS,
    LARGEST_EXPONENT,
    POWER,
    SEED,
    Differences,
    Power,
    critical,
    holm,
    moved,
    prior,
)

SHARED = 0.5  # of a difference's variance: the part of the reference, where its noise is as large as a row's
ANGLES = 360  # around an ellipse; an even number


@dataclass(frozen=True)
class PairedVariances:
    """Of the difference at one seed, with their degrees of freedom, […, K]."""

    variance: Any
    df: Any
    likely: Any  # without the guard


def paired_differences(values: Any) -> Differences:
    """The rows' mean differences from their reference. Args: […, K, N] row minus reference at each
    seed.

    Each row has two seeds or more, and some spread.
    """
    seeds_K = (~np.isnan(values)).sum(axis=-1)
    difference_K = np.nansum(values, axis=-1) / seeds_K
    moderated = paired_variances(products(residuals(values)), seeds_K)
    error_K = np.sqrt(moderated.variance / seeds_K)
    p_K = 2 * special.stdtr(moderated.df, -np.abs(difference_K) / error_K)
    return Differences(difference_K, error_K, error_K, moderated.df, p_K, holm(p_K))


def residuals(values: Any) -> Any:
    """[…, K, N] less the mean of each row; 0 at a seed that a row lacks."""
    centered = values - np.nanmean(values, axis=-1, keepdims=True)
    return np.where(np.isnan(values), 0.0, centered)


def products(residuals: Any) -> Any:
    """[…, K, K] sums over seeds of the product of two rows' residuals."""
    return residuals @ np.swapaxes(residuals, -1, -2)


def paired_variances(products: Any, seeds: Any) -> PairedVariances:
    """Moderated, with the bounds above. Args: […, K, K] `products` of the rows' residuals; […, K]
    seeds."""
    df_K = np.asarray(seeds, float) - 1
    own_K = np.diagonal(products, axis1=-2, axis2=-1) / df_K
    if own_K.shape[-1] < MODERATED_ROWS:
        return PairedVariances(own_K, df_K, own_K)
    shared, shared_df = prior(own_K, df_K.reshape(-1, df_K.shape[-1])[0])
    likely_K = moved(own_K, df_K, shared[..., None], shared_df[..., None])
    most_K = df_K * independent_rows(products)[..., None]
    gained_K = np.minimum(shared_df[..., None] + df_K, most_K) - df_K
    trusted_K = np.minimum(1.0, likely_K / own_K)
    return PairedVariances(np.maximum(likely_K, own_K), df_K + trusted_K * gained_K, likely_K)


def independent_rows(products: Any) -> Any:
    """[…] how many independent rows would know a common variance as well: 1 where all rows differ
    alike, at most K.

    The variance of a mean of K sample variances is Σ r² / K² of one's, where r are the correlations
    of the rows. Args: […, K, K] `products` of the rows' residuals.
    """
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    squared_correlations = products**2 / (squares[..., :, None] * squares[..., None, :])
    rows = products.shape[-1]
    return rows**2 / squared_correlations.sum(axis=(-2, -1))


def paired_exponential_intervals(
    found: Differences, reference: Any, reference_error: Any, correlation: Any, alpha: float = ALPHA
) -> tuple[Any, Any]:
    """Of e^row − e^reference, such as perplexities, whose logarithms were tested.

    The extremes within the ellipse of both errors. It holds 0 exactly where the interval of the
    logarithms does. Args: […, K] the reference's mean and its standard error at the row's seeds,
    and how it correlates with the difference.
    """
    reach = critical(found.df, found.p.shape[-1], alpha)
    difference_span = reach * found.error
    reference_span = reach * reference_error
    apart = np.sqrt(1 - np.minimum(np.square(correlation), 1.0))
    low = np.full_like(difference_span, np.inf)
    high = np.full_like(difference_span, -np.inf)
    for angle in np.linspace(
        0, 2 * np.pi, ANGLES, endpoint=False
    ):  # 0 and π are the ends of the logarithms' interval
        difference = found.difference + difference_span * np.cos(angle)
        mean = reference + reference_span * (correlation * np.cos(angle) + apart * np.sin(angle))
        value = _minus_exponentials(mean + difference, mean)
        low = np.minimum(low, value)
        high = np.maximum(high, value)
    return low, high


def _minus_exponentials(row: Any, reference: Any) -> Any:
    """e^row − e^reference, finite."""
    return np.exp(np.minimum(row, LARGEST_EXPONENT)) - np.exp(
        np.minimum(reference, LARGEST_EXPONENT)
    )


class PairedPower(Power):
    """What a number of seeds can show, of rows whose differences have these true variances, [K].

    Differences are drawn, [S draws, K, N], and go through the moderation of the test. Half of each
    difference's variance is that of the reference, which all rows share.
    """

    def seeds_needed(self, now: Sequence[int], difference: float, row: int) -> int | None:
        """Seeds in common that mark a true difference of this row with probability 0.8; None if
        1000 are too few."""
        if difference == 0:
            return None

        def is_enough(seeds: int) -> bool:
            counts = list(now)
            counts[row] = max(seeds, counts[row])
            return bool(self.of(counts, difference)[row] >= POWER)

        place = bisect_left(CANDIDATES, True, key=is_enough)
        return CANDIDATES[place] if place < len(CANDIDATES) else None

    def _reaches(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked,
        [S, K]."""
        seeds_K = np.array(seeds)
        moderated = paired_variances(self._drawn_products(seeds_K), seeds_K)
        error = np.sqrt(moderated.variance / seeds_K)
        return np.sqrt(self.variances / seeds_K), critical(
            moderated.df, self.families * len(seeds)
        ) * error

    def _drawn_products(self, seeds: Any) -> Any:
        """[S, K, K] of residuals. Seeds that one row alone has are not drawn one by one: they add a
        χ² to its square.

        So a thousand seeds of a row take no longer than ten.
        """
        chance = np.random.default_rng(SEED)
        rows = len(seeds)
        common = int(np.sort(seeds)[-2:][0])
        shared = np.sqrt(SHARED) * chance.normal(size=(DRAWS, 1, common))
        alone = np.sqrt(1 - SHARED) * chance.normal(size=(DRAWS, rows, common))
        values = np.where(np.arange(common) < seeds[:, None], shared + alone, np.nan)
        further = np.maximum(seeds - common, 0)
        unit_products = products(residuals(values))
        unit_products[:, np.arange(rows), np.arange(rows)] += 2 * chance.standard_gamma(
            further / 2, (DRAWS, rows)
        )
        sd = np.sqrt(self.variances)
        return unit_products * sd[:, None] * sd
