"""Tests over seeds, and their power.

Behind every mark: moderated variances, Satterthwaite's t, Holm's and Bonferroni's corrections.

Three seeds say little about a row's variance, and one variance for all rows is wrong where one row
is noisier. So each row's variance moves towards those of the others, as far as the rows agree
(empirical Bayes: Smyth, Stat. Appl. Genet. Mol. Biol. 3:3, 2004). A guard keeps a noisy row noisy.
What this costs and finds is measured in docs/statistics.md.

Tests are over arrays, so that one table and thousands of simulated studies run the same code.
Shapes: … any studies, R rows, K of them compared with another one: by default all with the first.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.seeds.finding import ALPHA, LEAST_SEEDS

FLOOR = 1e-5  # of the median variance: a row without spread would make all others look noisy
LARGEST_EXPONENT = 700.0  # beyond e^700 a float is infinite
LEAST_EXCESS = 1e-8  # of the variance of log variances: below it, they vary as equal ones would
ROUNDS = 60  # until the extreme of an ellipse stands still
POWER = 0.8
CANDIDATES = (
    *range(LEAST_SEEDS, 21),
    *(22, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 70, 80, 90, 100, 120, 150, 200, 300, 500, 1000),
)
"""Numbers of seeds that a table names: no estimate of a variance is worth more digits."""
VARIANCE_DRAWS = 400  # of the variances behind power
SEED = 20_170_612


@dataclass(frozen=True)
class Comparisons:
    """[K] places of the compared rows among all R, and of the row with which each is compared."""

    rows: Any
    references: Any

    @staticmethod
    def with_first(number_of_rows: int) -> "Comparisons":
        """Of all other rows with the first one."""
        others = np.arange(1, number_of_rows)
        return Comparisons(others, np.zeros_like(others))


@dataclass(frozen=True)
class ModeratedVariances:
    """Variances of one seed with their degrees of freedom, […, R]: with the guard, and before it."""

    variance: Any
    df: Any
    posterior: Any  # before the guard


@dataclass(frozen=True)
class Differences:
    """Row minus reference, with what chance makes of it; each […, K] but ``errors``."""

    difference: Any
    errors: Any  # […, R] standard errors of means
    error: Any  # of differences
    df: Any
    p: Any  # two-sided, uncorrected
    p_holm: Any  # corrected over the rows


def differences(
    means: Any,
    variances: Any,
    seeds: Any,
    comparisons: Comparisons | None = None,
    parts: Any = None,
) -> Differences:
    """Every compared row against its reference.

    Args:
        means: […, R].
        variances: […, R] of one seed.
        seeds: [R], each more than one: one more than the variance has degrees of freedom.
        parts: [K, R] the variance of each difference, as parts of the rows' variances: by default
            1 / seeds of the row, and of its reference.
    """
    comparisons = comparisons or Comparisons.with_first(len(seeds))
    variances_R = moderated(variances, seeds, comparisons)
    error_K, df_K = standard_errors(variances_R, seeds, comparisons, parts)
    difference_K = means[..., comparisons.rows] - means[..., comparisons.references]
    p_K = 2 * special.stdtr(df_K, -np.abs(difference_K) / error_K)
    errors_R = np.sqrt(variances_R.variance / seeds)
    return Differences(difference_K, errors_R, error_K, df_K, p_K, holm(p_K))


def standard_errors(
    variances: ModeratedVariances, seeds: Any, comparisons: Comparisons, parts: Any = None
) -> tuple[Any, Any]:
    """[…, K] standard errors of the rows' differences from their references, and their degrees of
    freedom. ``parts`` are those of ``differences``.

    No difference has more degrees than all rows have together: two variances that were moved
    towards one prior are not independent, though Satterthwaite's formula assumes it.
    """
    most_df = (np.asarray(seeds) - 1).sum()
    if parts is not None:
        variances_KR = variances.variance[..., None, :] * parts
        variance_K = variances_KR.sum(axis=-1)
        df_K = variance_K**2 / (variances_KR**2 / variances.df[..., None, :]).sum(axis=-1)
        return np.sqrt(variance_K), np.minimum(df_K, most_df)
    variances_of_means_R = variances.variance / seeds
    row_part = variances_of_means_R[..., comparisons.rows]
    reference_part = variances_of_means_R[..., comparisons.references]
    row_df = variances.df[..., comparisons.rows]
    reference_df = variances.df[..., comparisons.references]
    df_K = satterthwaite(row_part, reference_part, row_df, reference_df)
    return np.sqrt(row_part + reference_part), np.minimum(df_K, most_df)


def moderated(
    variances: Any, seeds: Any, comparisons: Comparisons | None = None
) -> ModeratedVariances:
    """Moved towards the prior, and guarded: a row's variance never falls below its own.

    A reference's variance enters several differences. So it moves only if the reference has no more
    seeds than most rows.
    """
    comparisons = comparisons or Comparisons.with_first(len(seeds))
    df_R = np.asarray(seeds, float) - 1
    prior_variance, prior_df = prior(variances, df_R)
    posterior_R = posterior_variance(
        variances, df_R, prior_variance[..., None], prior_df[..., None]
    )
    most_df = df_R.sum()  # no more than all seeds together have
    posterior_df_R = np.minimum(prior_df[..., None] + df_R, most_df)
    only_compared = np.setdiff1d(comparisons.rows, comparisons.references)
    usual_df = np.median(df_R[only_compared])
    for reference in np.unique(comparisons.references):
        if df_R[reference] > usual_df:
            posterior_R[..., reference] = variances[..., reference]
            posterior_df_R[..., reference] = df_R[reference]
    return ModeratedVariances(np.maximum(posterior_R, variances), posterior_df_R, posterior_R)


def posterior_variance(variance: Any, df: Any, prior_variance: Any, prior_df: Any) -> Any:
    """The mean of a row's variance and the prior's, weighted by their degrees of freedom (Smyth
    2004, section 3)."""
    is_finite = np.isfinite(prior_df)
    weight = np.where(is_finite, prior_df, 1.0)
    mean = (weight * prior_variance + df * variance) / (weight + df)
    return np.where(is_finite, mean, prior_variance)


def prior(variances: Any, df: Any) -> tuple[Any, Any]:
    """[…] the variance that the rows have in common, and how many further seeds of each row it
    counts as.

    From the mean and the variance of their logarithms (Smyth 2004, section 6.2). If these vary no
    more than equal variances would, it is the pooled variance, and counts infinitely.
    """
    floored = variances
    may_be_floored = variances.min(axis=-1) <= FLOOR * variances.max(axis=-1)
    if may_be_floored.any():  # only then the median, which is slow, matters
        positive = np.where(variances > 0, variances, np.nan)
        floored = np.maximum(variances, FLOOR * np.nanmedian(positive, axis=-1, keepdims=True))
    half_df = df / 2
    logs_R = np.log(floored) - special.digamma(half_df) + np.log(half_df)
    expected_variance = special.polygamma(1, half_df).mean()
    excess = np.asarray(logs_R.var(axis=-1, ddof=1) - expected_variance)
    varies = excess > LEAST_EXCESS
    half = np.ones_like(excess)
    half[varies] = inverse_trigamma(excess[varies])
    smyth = np.exp(logs_R.mean(axis=-1) + special.digamma(half) - np.log(half))
    pooled = (variances * df).sum(axis=-1) / df.sum()
    prior_variance = np.where(varies, smyth, pooled)
    prior_df = np.where(varies, 2 * half, np.inf)
    return prior_variance, prior_df


def inverse_trigamma(values: Any) -> Any:
    """Where the trigamma function has these positive values: Newton's method on its reciprocal
    (Smyth 2004)."""
    x = 0.5 + 1 / values
    for _ in range(10):  # converges from one side; four steps give eight digits
        trigamma = special.zeta(2, x)
        x = x + trigamma * (1 - trigamma / values) / (-2 * special.zeta(3, x))
    return x


def satterthwaite(variance_1: Any, variance_2: Any, df_1: Any, df_2: Any) -> Any:
    """The degrees of freedom of a sum of two estimated variances."""
    return (variance_1 + variance_2) ** 2 / (variance_1**2 / df_1 + variance_2**2 / df_2)


def holm(p: Any) -> Any:
    """[…, K] p values adjusted over the last axis."""
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    raised = np.maximum.accumulate(np.take_along_axis(p, order, axis=-1) * factors, axis=-1)
    adjusted = np.empty_like(raised)
    np.put_along_axis(adjusted, order, np.minimum(raised, 1.0), axis=-1)
    return adjusted


def critical(df: Any, rows: int, alpha: float = ALPHA) -> Any:
    """The |t| beyond which any of ``rows`` differences lies by chance in at most ``alpha`` of
    studies (Bonferroni)."""
    return -special.stdtrit(df, alpha / 2 / rows)


def intervals(tested: Differences, alpha: float = ALPHA) -> tuple[Any, Any]:
    """[…, K] lower and upper ends. All true differences lie within theirs in 1 − ``alpha`` of
    studies."""
    reach = critical(tested.df, tested.p.shape[-1], alpha) * tested.error
    return tested.difference - reach, tested.difference + reach


def exponential_intervals(
    tested: Differences,
    means: Any,
    alpha: float = ALPHA,
    comparisons: Comparisons | None = None,
) -> tuple[Any, Any]:
    """Of e^row − e^reference, such as perplexities, whose logarithms were tested; ``means`` are […,
    R] logarithms.

    The smallest and the largest difference within the ellipse that the two errors span. It holds 0
    exactly where the interval of the logarithms does, and includes the reference's own error.
    """
    comparisons = comparisons or Comparisons.with_first(means.shape[-1])
    reach = critical(tested.df, tested.p.shape[-1], alpha)
    row = means[..., comparisons.rows]
    reference = means[..., comparisons.references]
    row_span = reach * tested.errors[..., comparisons.rows]
    reference_span = reach * tested.errors[..., comparisons.references]
    low = _extreme(row, reference, row_span, reference_span, -1.0)
    high = _extreme(row, reference, row_span, reference_span, 1.0)
    return low, high


def _extreme(row: Any, reference: Any, row_span: Any, reference_span: Any, sign: float) -> Any:
    """e^x − e^y at the point of the ellipse around (row, reference) where it is extreme: by its own
    gradient."""
    x = row
    y = reference
    for _ in range(ROUNDS):
        top = np.maximum(x, y)  # keeps e^ finite; only the gradient's direction matters
        x_gradient = row_span * np.exp(x - top)
        y_gradient = reference_span * np.exp(y - top)
        length = np.hypot(x_gradient, y_gradient)
        x = row + sign * row_span * x_gradient / length
        y = reference - sign * reference_span * y_gradient / length
    return exponential_difference(x, y)


def exponential_difference(row: Any, reference: Any) -> Any:
    """e^row − e^reference, finite."""
    row_value = np.exp(np.minimum(row, LARGEST_EXPONENT))
    reference_value = np.exp(np.minimum(reference, LARGEST_EXPONENT))
    return row_value - reference_value


class Power:
    """What a number of seeds can show, in a family whose rows have these true variances.

    The variances that seeds may show are drawn, [S draws, R], and go through the test's own
    moderation. So power accounts for its guard and its estimated prior: without them it would be
    seven points too high at three seeds.
    """

    def __init__(
        self,
        variances: Sequence[float],
        n_families: int = 1,
        comparisons: Comparisons | None = None,
    ) -> None:
        self.variances = np.asarray(variances, float)
        self.n_families = n_families
        self.comparisons = comparisons or Comparisons.with_first(len(self.variances))

    def of(self, seeds: Sequence[int], differences: Any) -> Any:
        """[K]: the probability that each of [K] true differences is marked, if no other row
        differs; [R] seeds."""
        return _marked(*self._reaches(seeds), differences)

    def detectable(self, seeds: Sequence[int]) -> Any:
        """[K]: the true difference of each row that is marked with probability 0.8."""
        error_K, reach_SK = self._reaches(seeds)
        low = 0 * error_K
        high = reach_SK.max(axis=0) + 10 * error_K
        for _ in range(50):
            middle = (low + high) / 2
            enough = _marked(error_K, reach_SK, middle) >= POWER
            low = np.where(enough, low, middle)
            high = np.where(enough, middle, high)
        return high

    def seeds_needed(self, counts: Sequence[int], difference: float, row: int) -> int | None:
        """Seeds that mark a true difference of this compared row with probability 0.8, if it and
        the reference have at least so many, and the other rows keep their ``counts``. None if 1000
        are too few, as for a difference of 0."""
        if difference == 0:
            return None

        def is_enough(seeds: int) -> bool:
            raised = self._raised(counts, row, seeds)
            return bool(self.of(raised, difference)[row] >= POWER)

        index = bisect_left(CANDIDATES, True, key=is_enough)
        return CANDIDATES[index] if index < len(CANDIDATES) else None

    def _raised(self, counts: Sequence[int], row: int, seeds: int) -> list[int]:
        """The counts, where this compared row and its reference have at least ``seeds``."""
        raised = list(counts)
        for index in (self.comparisons.references[row], self.comparisons.rows[row]):
            raised[index] = max(seeds, counts[index])
        return raised

    def _reaches(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked,
        [S, K]."""
        seeds_R = np.array(seeds, float)
        drawn_SR = np.random.default_rng(SEED).chisquare(
            seeds_R - 1, (VARIANCE_DRAWS, len(seeds_R))
        )
        variances_SR = self.variances * drawn_SR / (seeds_R - 1)
        moderated_SR = moderated(variances_SR, seeds_R, self.comparisons)
        error_SK, df_SK = standard_errors(moderated_SR, seeds_R, self.comparisons)
        true_R = self.variances / seeds_R
        row_variance = true_R[self.comparisons.rows]
        reference_variance = true_R[self.comparisons.references]
        number = self.n_families * len(self.comparisons.rows)
        return np.sqrt(row_variance + reference_variance), critical(df_SK, number) * error_SK


def _marked(error: Any, reach: Any, differences: Any) -> Any:
    """The probability that these true differences are marked, over the draws behind ``reach``."""
    right_side = special.ndtr((np.abs(differences) - reach) / error)
    wrong_side = special.ndtr((-np.abs(differences) - reach) / error)
    return (right_side + wrong_side).mean(axis=0)
