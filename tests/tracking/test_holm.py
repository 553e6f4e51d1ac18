"""Holm's adjustment, by hand and against statsmodels."""

import random

import pytest
from statsmodels.stats.multitest import multipletests

from tracking.statistics.holm import holm


def test_by_hand() -> None:
    # sorted: 0.005 × 4, 0.01 × 3, 0.03 × 2, and 0.04 × 1 is not below the one before
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02}
    )


def test_it_ends_at_one_and_keeps_the_order_of_rows() -> None:
    assert holm({"b": 0.9, "a": 0.6}) == {"b": 1.0, "a": 1.0}
    assert list(holm({"b": 0.9, "a": 0.1})) == ["b", "a"]
    assert (holm({}), holm({1: 0.2})) == ({}, {1: 0.2})


@pytest.mark.parametrize("seed", range(3))
def test_it_is_what_statsmodels_computes(seed: int) -> None:
    drawn = random.Random(seed)
    values = [round(drawn.random() ** 3, 2) for _ in range(19)]  # rounded: with ties
    reference = multipletests(values, method="holm")[1]
    assert list(holm(dict(enumerate(values))).values()) == pytest.approx(list(reference))
