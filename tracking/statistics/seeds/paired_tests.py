"""Tests over differences seed by seed, for rows that share luck at each seed, such as rows that
score the same weights.

A row and its reference are compared at the seeds that both have. Variances of rows move towards
each other as in `seed_tests`, with three bounds that few seeds need; docs/statistics.md says what
they cost.

- With fewer than three rows no variance moves: a plain paired t.
- Rows that differ alike seed by seed together show one variance, not one each. So the degrees of
  freedom that a row gains are limited to those of as many independent rows as the differences are
  worth.
- A row that varies more than its moderated variance keeps its own, and gains proportionally fewer
  degrees of freedom.

Shapes: … any studies, K compared rows, N seeds. A seed that a row lacks is NaN.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.seeds.finding import ALPHA, MODERATED_ROWS
from tracking.statistics.seeds.seed_tests import (
    SEED,
    VARIANCE_DRAWS,
    Differences,
    Power,
    critical,
    exponential_difference,
    holm,
    posterior_variance,
    prior,
)

SHARED = 0.5  # the reference's part of a difference's variance, if it is as noisy as a row
ANGLES = 360  # around an ellipse; an even number


@dataclass(frozen=True)
class PairedVariances:
    """Of the difference at one seed, with their degrees of freedom, […, K]."""

    variance: Any
    df: Any
    posterior: Any  # before the guard


def paired_differences(values: Any) -> Differences:
    """The rows' mean differences from their reference. Args: […, K, N] row minus reference at each
    seed.

    Each row has two seeds or more, and some spread.
    """
    seeds_K = (~np.isnan(values)).sum(axis=-1)
    difference_K = np.nansum(values, axis=-1) / seeds_K
    products_KK = products(residuals(values))
    moderated = paired_variances(products_KK, seeds_K)
    error_K = np.sqrt(moderated.variance / seeds_K)
    t_K = np.abs(difference_K) / error_K
    p_K = 2 * special.stdtr(moderated.df, -t_K)
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
    sample_K = np.diagonal(products, axis1=-2, axis2=-1) / df_K
    if sample_K.shape[-1] < MODERATED_ROWS:
        return PairedVariances(sample_K, df_K, sample_K)
    prior_variance, prior_df = prior(sample_K, df_K.reshape(-1, df_K.shape[-1])[0])
    posterior_K = posterior_variance(sample_K, df_K, prior_variance[..., None], prior_df[..., None])
    most_df_K = df_K * independent_rows(products)[..., None]
    gained_df_K = np.minimum(prior_df[..., None] + df_K, most_df_K) - df_K
    share_K = np.minimum(1.0, posterior_K / sample_K)
    variance_K = np.maximum(posterior_K, sample_K)
    return PairedVariances(variance_K, df_K + share_K * gained_df_K, posterior_K)


def independent_rows(products: Any) -> Any:
    """[…] how many independent rows would know a common variance as well: 1 where all rows differ
    alike, at most K.

    The variance of a mean of K sample variances is Σ r² / K² of one's, where r are the correlations
    of the rows. Args: […, K, K] `products` of the rows' residuals.
    """
    squares = np.diagonal(products, axis1=-2, axis2=-1)
    squares_of_pairs = squares[..., :, None] * squares[..., None, :]
    squared_correlations = products**2 / squares_of_pairs
    rows = products.shape[-1]
    return rows**2 / squared_correlations.sum(axis=(-2, -1))


def paired_exponential_intervals(
    tested: Differences,
    reference: Any,
    reference_error: Any,
    correlation: Any,
    alpha: float = ALPHA,
) -> tuple[Any, Any]:
    """Of e^row − e^reference, such as perplexities, whose logarithms were tested.

    The extremes within the ellipse of both errors. It holds 0 exactly where the interval of the
    logarithms does. Args: […, K] the reference's mean and its standard error at the row's seeds,
    and how it correlates with the difference.
    """
    reach = critical(tested.df, tested.p.shape[-1], alpha)
    difference_span = reach * tested.error
    reference_span = reach * reference_error
    independent = np.sqrt(1 - np.minimum(np.square(correlation), 1.0))
    low = np.full_like(difference_span, np.inf)
    high = np.full_like(difference_span, -np.inf)
    # The angles 0 and π are the ends of the logarithms' interval.
    for angle in np.linspace(0, 2 * np.pi, ANGLES, endpoint=False):
        difference = tested.difference + difference_span * np.cos(angle)
        direction = correlation * np.cos(angle) + independent * np.sin(angle)
        mean = reference + reference_span * direction
        value = exponential_difference(mean + difference, mean)
        low = np.minimum(low, value)
        high = np.maximum(high, value)
    return low, high


class PairedPower(Power):
    """What a number of seeds can show, of rows whose differences have these true variances, [K].

    Differences are drawn, [S draws, K, N], and go through the moderation of the test. Half of each
    difference's variance comes from the reference, which all rows share. Counts of seeds are those
    in common.
    """

    def _raised(self, counts: Sequence[int], row: int, seeds: int) -> list[int]:
        raised = list(counts)
        raised[row] = max(seeds, counts[row])
        return raised

    def _reaches(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked,
        [S, K]."""
        seeds_K = np.array(seeds)
        moderated = paired_variances(self._drawn_products(seeds_K), seeds_K)
        error_SK = np.sqrt(moderated.variance / seeds_K)
        true_error_K = np.sqrt(self.variances / seeds_K)
        return true_error_K, critical(moderated.df, self.n_families * len(seeds)) * error_SK

    def _drawn_products(self, seeds: Any) -> Any:
        """[S, K, K] of residuals. Seeds that only one row has are not drawn one by one: they add a
        χ² to its square.

        So a thousand seeds of a row take no longer than ten.
        """
        random = np.random.default_rng(SEED)
        rows = len(seeds)
        common = int(np.sort(seeds)[-2:][0])
        shared = np.sqrt(SHARED) * random.normal(size=(VARIANCE_DRAWS, 1, common))
        independent = np.sqrt(1 - SHARED) * random.normal(size=(VARIANCE_DRAWS, rows, common))
        values = np.where(np.arange(common) < seeds[:, None], shared + independent, np.nan)
        unit_products = products(residuals(values))
        further = np.maximum(seeds - common, 0)
        chi_squares = 2 * random.standard_gamma(further / 2, (VARIANCE_DRAWS, rows))
        unit_products[:, np.arange(rows), np.arange(rows)] += chi_squares
        sd = np.sqrt(self.variances)
        return unit_products * sd[:, None] * sd
