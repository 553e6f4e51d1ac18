"""The verdict against the paper, by its printed rule."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tracking.card import Metric
from tracking.statistics.seeds.family import Family, RowTest
from tracking.statistics.seeds.finding import Finding
from tracking.statistics.verdict import rank_agreement, rule, verdict
from transformer.card import CARD

PPL, BLEU = CARD.tabled
PUBLISHED = {"base": 25.8, "better": 26.4, "worse": 24.9, "same": 25.7}


def a_family(metric: Metric = BLEU, marked: bool = True, **ends: tuple[float, float]) -> Family:
    """Rows with these intervals, around their middles."""
    tests = {
        row: RowTest(
            middle, low, high, 0.01 if marked else 0.2, Finding("better"), (middle, low, high)
        )
        for row, (low, high) in ends.items()
        for middle in [(low + high) / 2]
    }
    return Family(metric, "base", {**tests})


def words(family: Family, published: dict[str, float | None]) -> dict[str, str]:
    answer = verdict([family], published)
    assert answer is not None
    return answer.rows


@pytest.mark.parametrize(
    ("paper", "ends", "marked", "text"),  # base is 25.8 in the paper
    [
        (26.4, (0.1, 0.9), True, "agrees"),
        (26.4, (-0.9, -0.1), True, "disagrees"),
        (26.4, (-0.1, 0.9), True, "agrees"),  # the mark decides, not the stricter interval
        (26.4, (0.1, 0.9), False, "not shown"),
        (24.9, (0.1, 0.9), True, "disagrees"),
        (24.9, (-0.9, -0.1), True, "agrees"),
        (
            25.7,
            (-0.5, 0.5),
            False,
            "agrees (none in the paper)",
        ),  # −0.1000000000000014 in floating point
        (
            25.7,
            (0.1, 0.4),
            True,
            "agrees (none in the paper)",
        ),  # a difference is shown, but it is within the margin
        (25.7, (-0.6, 0.1), False, "not shown (none in the paper)"),
        (25.7, (0.1, 0.6), True, "not shown (none in the paper)"),
        (25.7, (0.6, 0.9), True, "disagrees (none in the paper)"),
        (25.7, (-0.9, -0.6), True, "disagrees (none in the paper)"),
    ],
)
def test_a_row_s_verdict(paper: float, ends: tuple[float, float], marked: bool, text: str) -> None:
    assert words(a_family(marked=marked, row=ends), {"base": 25.8, "row": paper}) == {"row": text}


def test_numbers_of_the_rule_are_the_metric_s_and_printed_with_it() -> None:
    family = replace(a_family(row=(-0.005, 0.01)), metric=PPL)
    # 0.020000000000000462
    assert words(family, {"base": 4.92, "row": 4.94}) == {"row": "agrees (none in the paper)"}
    assert words(family, {"base": 4.92, "row": 4.95}) == {"row": "agrees"}
    assert words(
        a_family(replace(BLEU, agrees_within=None), row=(0, 0)), {"base": 25.8, "row": 25.8}
    ) == {"row": "not shown (none in the paper)"}
    for phrase in (
        "at most 0.02 counts as no difference",
        "within ± 0.02 in ln PPL",
        "For that, PPL is compared as ln PPL.",
    ):
        assert phrase in rule(PPL, "base")
    assert "within ± 0.5 BLEU" in rule(BLEU, "base")
    assert "No margin is stated" in rule(Metric("accuracy"), "base")


def test_rows_without_a_test_or_a_published_value() -> None:
    tested = a_family(better=(1, 2), mine=(1, 2))
    family = replace(tested, rows={**tested.rows, "worse": "1 seed", "other": "2 seeds"})
    assert words(family, {**PUBLISHED, "other": None}) == {
        "better": "agrees",
        "worse": "not tested: 1 seed",
    }
    assert verdict([family], {"better": 26.4}) is None
    assert verdict([family], {"base": 25.8, "other": None}) is None
    assert verdict([family], {"base": 25.8, "elsewhere": 1.0}) is None


def test_rank_agreement_is_that_of_scipy_with_a_permutation_p() -> None:
    chance = np.random.default_rng(3)
    ours = chance.normal(size=6)
    theirs = np.round(chance.normal(size=6), 1)
    theirs[0] = theirs[1]  # a tie
    orders = [
        abs(stats.kendalltau(order, theirs).statistic) for order in itertools.permutations(ours)
    ]
    agreement = rank_agreement(list(zip(ours, theirs, strict=True)))
    assert agreement is not None
    (spearman, _), (kendall, p) = agreement
    assert spearman == pytest.approx(stats.spearmanr(ours, theirs).statistic)
    assert kendall == pytest.approx(stats.kendalltau(ours, theirs).statistic)
    assert p == pytest.approx(np.mean(np.array(orders) >= abs(kendall) - 1e-9), abs=0.015)
    assert rank_agreement([(1.0, 1.0), (2.0, 2.0)]) is None
    assert rank_agreement([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]) is None


def test_the_order_is_told_in_words() -> None:
    answer = verdict(
        [a_family(low=(1, 1), middle=(2, 2), high=(3, 3))],
        {"base": 5, "low": 6, "middle": 7, "high": 8},
    )
    assert answer is not None
    assert (
        "Order of the 3 tested rows against the published order: Spearman's ρ 1.00 (p 0."
        in answer.lines()[1]
    )
