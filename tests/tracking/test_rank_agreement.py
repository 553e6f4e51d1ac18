"""Rank correlations: by hand, against scipy, and their intervals."""

import numpy as np
import pytest
from scipy import stats

from tracking.statistics.rank_agreement import RankAgreement, rank_agreement


def agreement(ours: list[float], published: list[float], error: float = 0.0) -> RankAgreement:
    found = rank_agreement(ours, [error] * len(ours), published)
    assert found is not None
    return found


def test_by_hand() -> None:
    """Ranks 1 2 3 4 against 2 1 3 4: ρ = 1 − 6·2/(4·15) = 0.8; five of six pairs agree: τ = 4/6."""
    found = agreement([10.0, 20.0, 30.0, 40.0], [0.2, 0.1, 0.3, 0.4])
    assert found.rows == 4
    assert (found.spearman.value, found.kendall.value) == pytest.approx((0.8, 2 / 3))


@pytest.mark.parametrize("seed", range(3))
def test_scipy_computes_the_same_also_with_ties(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    published = np.round(drawn.normal(size=19), 1)
    ours = np.round(published + drawn.normal(size=19), 1)
    found = agreement(list(ours), list(published))
    assert found.spearman.value == pytest.approx(stats.spearmanr(ours, published).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(ours, published).statistic)


def test_means_without_chance_have_no_interval() -> None:
    found = agreement([1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0]).spearman
    assert (found.low, found.high) == pytest.approx((found.value, found.value))


def test_the_interval_is_that_of_drawn_means() -> None:
    """Two rows that are one standard error apart change places in 24 % of draws: P(N(1, 2) < 0) = 0.2398."""
    ours, published = [0.0, 1.0, 9.0], [1.0, 2.0, 3.0]
    found = agreement(ours, published, 1.0)
    assert (found.spearman.value, found.spearman.low, found.spearman.high) == pytest.approx((1, 0.5, 1))
    steady = agreement([0.0, 9.0, 18.0], published, 1.0).kendall
    assert (steady.low, steady.high) == pytest.approx((1, 1))
    assert found == agreement(ours, published, 1.0)  # the seed is fixed


def test_more_chance_is_a_wider_interval() -> None:
    ours, published = [float(i) for i in range(12)], [float(i) for i in range(12)]
    little, much = (agreement(ours, published, error).spearman for error in (0.5, 4.0))
    assert little.high - little.low < much.high - much.low


@pytest.mark.parametrize(
    ("ours", "published"),
    [([], []), ([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, 3.0], [5.0, 5.0, 5.0]), ([1.0, 1.0, 1.0], [1.0, 2.0, 3.0])],
)
def test_no_order_no_agreement(ours: list[float], published: list[float]) -> None:
    assert rank_agreement(ours, [0.1] * len(ours), published) is None


def test_text() -> None:
    text = agreement([3.0, 2.0, 1.0], [1.0, 2.0, 3.0]).text
    assert text.startswith("Order of the 3 tested rows against the published order: Spearman's ρ −1.00 [−1.00, −1.00]")
