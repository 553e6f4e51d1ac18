"""The distributions behind the tests: Student's t, the noncentral t, and Dunnett's largest |t| of several rows.

scipy.special is imported inside functions: it takes a third of a second, and most commands test nothing.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np

NODES = 64  # of each of two integrals, and more where a row has many more seeds than the reference: p to 8 decimals
LARGEST_NORMAL = 9.0  # beyond it lies less than 1e-18 of a normal distribution
OUTSIDE = 1e-15  # of the distribution of the pooled variance, at each end
Loadings = tuple[tuple[float, int], ...]


def loadings(reference: int, rows: Iterable[int]) -> Loadings:
    """How strongly each row's t depends on the reference's mean, √(n_i / (n_i + n_0)), with the number of such rows.

    Args: seeds of the reference, and of each tested row. Two rows' t have the product of theirs as correlation.
    """
    counted = Counter(rows)
    return tuple((math.sqrt(n / (n + reference)), counted[n]) for n in sorted(counted))


def largest_t_tail(t: float, rows: Loadings, df: int) -> float:
    """The probability that any row's |t| is above ``t`` though no row differs: Dunnett's adjusted p.

    Given the reference's mean and the pooled variance the rows are independent, so two integrals are enough (Dunnett
    1955, equation 2). Deterministic; `scipy.stats.dunnett` draws random numbers for the same value.
    """
    if math.isinf(t):
        return 0.0
    return float(min(1.0, max(0.0, 1.0 - _inside(abs(t), rows, df))))


@lru_cache(maxsize=512)
def critical_t(rows: Loadings, df: int, alpha: float) -> float:
    """The |t| that any row exceeds with probability ``alpha`` though no row differs."""
    from scipy import special

    one, all_apart = (-float(special.stdtrit(df, alpha / 2 / of)) for of in (1, sum(count for _, count in rows)))
    if all_apart - one < 1e-9:  # a single row
        return one
    return _root(lambda t: math.log(max(largest_t_tail(t, rows, df), 1e-300) / alpha), one, all_apart)


def t_tail(t: float, df: float) -> float:
    """The probability of |T| above ``t`` for Student's t."""
    from scipy import special

    return float(2 * special.stdtr(df, -abs(t)))


def power(noncentrality: float, critical: float, df: int) -> float:
    """The probability of |T| above ``critical`` for the noncentral t."""
    from scipy import special

    scale, weight = _scale_nodes(df, 2 * NODES)
    bound = critical * scale
    return 1 - float(weight @ (special.ndtr(bound - noncentrality) - special.ndtr(-bound - noncentrality)))


def noncentrality(critical: float, df: int, wanted: float) -> float:
    """The noncentrality at which the power is ``wanted``."""
    high = critical + 5.0
    while power(high, critical, df) < wanted:
        high *= 2
    return _root(lambda shift: power(shift, critical, df) - wanted, 0.0, high)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a monotonic function crosses zero, by the Illinois variant of false position."""
    at_low, at_high, side = function(low), function(high), 0
    if at_low * at_high >= 0:  # one end is the root, but for rounding
        return low if abs(at_low) < abs(at_high) else high
    middle = low
    for _ in range(100):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = function(middle)
        if abs(value) < 1e-11 or high - low < 1e-12:
            break
        if value * at_high < 0:
            low, at_low, at_high, side = middle, value, at_high / (2 if side > 0 else 1), 1
        else:
            high, at_high, at_low, side = middle, value, at_low / (2 if side < 0 else 1), -1
    return middle


def _inside(t: float, rows: Loadings, df: int) -> float:
    """The probability that every |t| is at most ``t``."""
    from scipy import special

    number = math.ceil(NODES / math.sqrt(1 - max(loading for loading, _ in rows) ** 2))
    scale, scale_weight = _scale_nodes(df, number)
    normal, normal_weight = _normal_nodes(number)
    all_inside = np.ones((len(scale), len(normal)))
    for loading, count in rows:
        rest = math.sqrt(1 - loading**2)
        upper = (t * scale[:, None] + loading * normal) / rest
        lower = (-t * scale[:, None] + loading * normal) / rest
        all_inside *= (special.ndtr(upper) - special.ndtr(lower)) ** count
    return float(scale_weight @ all_inside @ normal_weight)


@lru_cache(maxsize=16)
def _normal_nodes(number: int) -> tuple[Any, Any]:
    """Points of the standard normal distribution, and their weights."""
    points, weights = _legendre(-LARGEST_NORMAL, LARGEST_NORMAL, number)
    return points, weights * np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=64)
def _scale_nodes(df: int, number: int) -> tuple[Any, Any]:
    """Points of the pooled sd over the true one, √(χ²/df), and their weights."""
    from scipy import special

    low, high = (math.sqrt(float(special.chdtri(df, tail)) / df) for tail in (1 - OUTSIDE, OUTSIDE))
    points, weights = _legendre(low, high, number)
    log_density = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    density = np.exp(log_density + (df - 1) * np.log(points) - df * points**2 / 2)
    return points, weights * density


def _legendre(low: float, high: float, number: int) -> tuple[Any, Any]:
    points, weights = _unit_nodes(number)
    return low + (points + 1) * (high - low) / 2, weights * (high - low) / 2


@lru_cache(maxsize=16)
def _unit_nodes(number: int) -> tuple[Any, Any]:
    return np.polynomial.legendre.leggauss(number)
