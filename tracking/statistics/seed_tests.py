"""Tests over seeds, and their power.

Behind every mark: moderated variances, Satterthwaite's t, Holm's and Bonferroni's corrections.

Three seeds tell little of a row's variance, and one variance for all rows is wrong where one row is
noisier. So each row's variance moves towards those of the others, as far as the rows agree
(empirical Bayes: Smyth, Stat. Appl. Genet. Mol. Biol. 3:3, 2004). A guard keeps a noisy row noisy.
What this costs and finds is measured in docs/statistics.md.

Tests are over arrays, so that one table and thousands of simulated studies take the same way.
Shapes: … any studies, R rows with the reference first, K = R − 1 compared rows.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.finding import ALPHA

FLOOR = 1e-5  # of the median variance: a row without any spread would make all others look infinitely noisy
LARGEST_EXPONENT = 700.0  # beyond e^700 a float is infinite
LEAST_EXCESS = (
    1e-8  # of the log variances: below it they vary as much as equal variances do, so all are one
)
ROUNDS = 60  # until the extreme of an ellipse stands still
POWER = 0.8
LEAST_SEEDS = 3
CANDIDATES = (
    *range(LEAST_SEEDS, 21),
    *(22, 24, 27, 30, 33, 36, 40, 45, 50, 55, 60, 70, 80, 90, 100, 120, 150, 200, 300, 500, 1000),
)
"""Numbers of seeds that are told: no estimate of a variance is worth more digits."""
DRAWS, SEED = 400, 20_170_612  # of the variances behind power


@dataclass(frozen=True)
class Moderated:
    """Variances of one seed with their degrees of freedom, […, R]."""

    variance: Any
    df: Any
    likely: Any  # without the guard


@dataclass(frozen=True)
class Differences:
    """Row minus reference, with what chance makes of it; each […, K] but ``errors``."""

    difference: Any
    errors: Any  # […, R] standard errors of means
    error: Any  # of differences
    df: Any
    p: Any  # two-sided, of the row alone
    p_holm: Any  # corrected over the rows


def differences(means: Any, variances: Any, seeds: Any) -> Differences:
    """Every row against the first one. Args: […, R] means and sample variances; [R] seeds, each at
    least two."""
    known = moderated(variances, seeds)
    error_K, df_K = chance(known, seeds)
    difference_K = means[..., 1:] - means[..., :1]
    p_K = 2 * special.stdtr(df_K, -np.abs(difference_K) / error_K)
    return Differences(difference_K, np.sqrt(known.variance / seeds), error_K, df_K, p_K, holm(p_K))


def chance(known: Moderated, seeds: Any) -> tuple[Any, Any]:
    """[…, K] standard errors of the rows' differences from the first one, and their degrees of
    freedom.

    No difference has more of these than all rows have together: two variances that were moved to
    one prior are no independent ones, as Satterthwaite's formula takes them to be."""
    parts_R = known.variance / seeds
    part_K = parts_R[..., 1:]
    part = parts_R[..., :1]
    df_K = known.df[..., 1:]
    df = known.df[..., :1]
    return np.sqrt(part_K + part), np.minimum(
        satterthwaite(part_K, part, df_K, df), (np.asarray(seeds) - 1).sum()
    )


def moderated(variances: Any, seeds: Any) -> Moderated:
    """Moved towards the prior, and guarded: a row's variance never falls below its own.

    The reference's enters every difference. So it moves only where it has no more seeds than most
    rows.
    """
    df_R = np.asarray(seeds, float) - 1
    shared, shared_df = prior(variances, df_R)
    likely_R = moved(variances, df_R, shared[..., None], shared_df[..., None])
    gained_R = np.minimum(
        shared_df[..., None] + df_R, df_R.sum()
    )  # no more than all seeds together have
    if df_R[0] > np.median(df_R[1:]):
        likely_R[..., 0], gained_R[..., 0] = variances[..., 0], df_R[0]
    return Moderated(np.maximum(likely_R, variances), gained_R, likely_R)


def moved(variance: Any, df: Any, common: Any, common_df: Any) -> Any:
    """The mean of a row's variance and the prior's, weighted by their degrees of freedom."""
    finite = np.where(np.isfinite(common_df), common_df, 1.0)
    return np.where(
        np.isfinite(common_df), (finite * common + df * variance) / (finite + df), common
    )


def prior(variances: Any, df: Any) -> tuple[Any, Any]:
    """[…] what the rows' variances have in common, and how many further seeds of each row it counts
    as.

    From the mean and the variance of their logarithms (Smyth 2004, section 6.2). Where these vary
    no more than equal variances would, it is the pooled variance, and counts infinitely.
    """
    floored = variances
    if (
        variances.min(axis=-1) <= FLOOR * variances.max(axis=-1)
    ).any():  # the median, which is slow, matters
        positive = np.where(variances > 0, variances, np.nan)
        floored = np.maximum(variances, FLOOR * np.nanmedian(positive, axis=-1, keepdims=True))
    logs_R = np.log(floored) - special.digamma(df / 2) + np.log(df / 2)
    mean = logs_R.mean(axis=-1)
    excess = np.asarray(logs_R.var(axis=-1, ddof=1) - special.polygamma(1, df / 2).mean())
    varies = excess > LEAST_EXCESS
    half = np.ones_like(excess)
    half[varies] = inverse_trigamma(excess[varies])
    apart = np.exp(mean + special.digamma(half) - np.log(half))
    alike = (variances * df).sum(axis=-1) / df.sum()
    return np.where(varies, apart, alike), np.where(varies, 2 * half, np.inf)


def inverse_trigamma(values: Any) -> Any:
    """Where the trigamma function has these positive values: Newton's method on its reciprocal
    (Smyth 2004)."""
    found = 0.5 + 1 / values
    for _ in range(10):  # converges from one side; four steps give eight digits
        trigamma = special.zeta(2, found)
        found = found + trigamma * (1 - trigamma / values) / (-2 * special.zeta(3, found))
    return found


def satterthwaite(part: Any, other: Any, df: Any, other_df: Any) -> Any:
    """The degrees of freedom of a sum of two estimated variances."""
    return (part + other) ** 2 / (part**2 / df + other**2 / other_df)


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


def intervals(found: Differences, alpha: float = ALPHA) -> tuple[Any, Any]:
    """[…, K] lower and upper ends. All true differences lie within theirs in 1 − ``alpha`` of
    studies."""
    reach = critical(found.df, found.p.shape[-1], alpha) * found.error
    return found.difference - reach, found.difference + reach


def exponential_intervals(found: Differences, means: Any, alpha: float = ALPHA) -> tuple[Any, Any]:
    """Of e^row − e^reference, such as perplexities, whose logarithms were tested; ``means`` are […,
    R] logarithms.

    The smallest and the largest difference within the ellipse that the two errors span. It holds 0
    exactly where the interval of the logarithms does, and takes the reference's own error in.
    """
    reach = critical(found.df, found.p.shape[-1], alpha)
    row = means[..., 1:]
    reference = means[..., :1]
    spans = reach * found.errors[..., 1:], reach * found.errors[..., :1]
    return _extreme(row, reference, *spans, -1.0), _extreme(row, reference, *spans, 1.0)


def _extreme(row: Any, reference: Any, span: Any, other: Any, sign: float) -> Any:
    """e^x − e^y at the point of the ellipse around (row, reference) where it is extreme: by its own
    gradient."""
    x = row
    y = reference
    for _ in range(ROUNDS):
        top = np.maximum(x, y)  # keeps e^ finite; only the gradient's direction matters
        along = span * np.exp(x - top)
        across = other * np.exp(y - top)
        length = np.hypot(along, across)
        x = row + sign * span * along / length
        y = reference - sign * other * across / length
    return np.exp(np.minimum(x, LARGEST_EXPONENT)) - np.exp(np.minimum(y, LARGEST_EXPONENT))


class Power:
    """What a number of seeds can show, in a family whose rows have these true variances, the
    reference first.

    The variances that seeds may show are drawn, [S draws, R], and go through the test's own
    moderation. So its guard and its estimated prior are accounted for: without them the power at
    three seeds would be told too high by seven points.
    """

    def __init__(self, variances: Sequence[float], families: int = 1) -> None:
        self.variances = np.asarray(variances, float)
        self.families = families

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

    def seeds_needed(self, now: Sequence[int], difference: float, row: int) -> int | None:
        """Seeds that mark a true difference of this compared row with probability 0.8, if it and
        the reference have at least so many, and the other rows as many as ``now``. None if 1000 are
        too few, as for a difference of 0."""
        if difference == 0:
            return None

        def is_enough(seeds: int) -> bool:
            each = [
                max(seeds, count) if place in (0, row + 1) else count
                for place, count in enumerate(now)
            ]
            return bool(self.of(each, difference)[row] >= POWER)

        place = bisect_left(CANDIDATES, True, key=is_enough)
        return CANDIDATES[place] if place < len(CANDIDATES) else None

    def _reaches(self, seeds: Sequence[int]) -> tuple[Any, Any]:
        """[K] true standard errors, and for each draw the difference from which a row is marked,
        [S, K]."""
        number = np.array(seeds, float)
        drawn = np.random.default_rng(SEED).chisquare(number - 1, (DRAWS, len(number)))
        true = self.variances / number
        error, df = chance(moderated(self.variances * drawn / (number - 1), number), number)
        return np.sqrt(true[1:] + true[0]), critical(df, self.families * (len(number) - 1)) * error


def _marked(error: Any, reach: Any, differences: Any) -> Any:
    """The probability that these true differences are marked, over the draws behind ``reach``."""
    parts = [special.ndtr((sign * np.abs(differences) - reach) / error) for sign in (1, -1)]
    return (parts[0] + parts[1]).mean(axis=0)
