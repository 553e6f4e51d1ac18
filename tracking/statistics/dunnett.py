"""Dunnett's and Welch's p, beside the mark: what other papers report, for columns of CSV and JSON.

Dunnett's assumes one variance for all rows, and errs in a third of studies where one row is noisier. Welch's assumes
nothing, and finds little with three seeds (docs/statistics.md).
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from tracking.statistics.moderated_tests import holm, satterthwaite

NODES = 64  # of each of two integrals, and more where a row has many more seeds than the reference: p to 8 decimals
LARGEST_NORMAL = 9.0  # beyond it lies less than 1e-18 of a normal distribution
OUTSIDE = 1e-15  # of the distribution of the pooled variance, at each end
Groups = Mapping[str, Sequence[float]]


def dunnett_p(base: Sequence[float], rows: Groups) -> dict[str, float]:
    """Adjusted over the rows (Dunnett 1955, equation 2). Each group has at least two values.

    Given the reference's mean and the pooled variance the rows are independent, so two integrals are enough.
    Deterministic; `scipy.stats.dunnett` draws random numbers for the same value.
    """
    groups = [base, *rows.values()]
    df = sum(map(len, groups)) - len(groups)
    squares = sum(float(np.var(group)) * len(group) for group in groups)
    errors = {row: math.sqrt(squares / df * (1 / len(of) + 1 / len(base))) for row, of in rows.items()}
    loadings = Counter(math.sqrt(len(of) / (len(of) + len(base))) for of in rows.values())
    found = {row: abs(float(np.mean(of) - np.mean(base))) / errors[row] for row, of in rows.items()}
    return {row: min(1.0, max(0.0, 1.0 - inside(t, loadings, df))) for row, t in found.items()}


def welch_p(base: Sequence[float], rows: Groups) -> dict[str, float]:
    """Welch's t-test with Holm's correction over the rows. Without any spread p is 1 for equal means, 0 for others."""
    below = np.var(base, ddof=1) / len(base)
    parts = np.array([np.var(of, ddof=1) / len(of) for of in rows.values()])
    differences = np.array([np.mean(of) - np.mean(base) for of in rows.values()])
    sizes = np.array([len(of) for of in rows.values()])
    error = np.sqrt(parts + below)
    with np.errstate(divide="ignore", invalid="ignore"):
        df = satterthwaite(parts, below, sizes - 1, len(base) - 1)
        p = 2 * special.stdtr(df, -np.abs(differences) / error)
    known = np.where(error > 0, p, np.where(differences == 0, 1.0, 0.0))
    return dict(zip(rows, map(float, holm(known)), strict=True))


def inside(t: float, loadings: Mapping[float, int], df: int) -> float:
    """The probability that every row's |t| is at most ``t`` though none differs.

    A loading is how strongly a row's t depends on the reference's mean, with the number of such rows."""
    number = math.ceil(NODES / math.sqrt(1 - max(loadings) ** 2))
    scale, scale_weight = _scale_nodes(df, number)
    normal, normal_weight = _normal_nodes(number)
    all_inside = np.ones((len(scale), len(normal)))
    for loading, count in loadings.items():
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
    low, high = (math.sqrt(float(special.chdtri(df, tail)) / df) for tail in (1 - OUTSIDE, OUTSIDE))
    points, weights = _legendre(low, high, number)
    log_density = math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    return points, weights * np.exp(log_density + (df - 1) * np.log(points) - df * points**2 / 2)


def _legendre(low: float, high: float, number: int) -> tuple[Any, Any]:
    points, weights = np.polynomial.legendre.leggauss(number)
    return low + (points + 1) * (high - low) / 2, weights * (high - low) / 2
