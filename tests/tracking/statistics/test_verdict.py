"""The verdict against the paper, by its printed rule."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tracking.card import Metric
from tracking.statistics.family import Family, RowTest
from tracking.statistics.finding import Finding
from tracking.statistics.verdict import rank_agreement, rule, verdict
from transformer.card import CARD

PPL, BLEU = CARD.tabled
PUBLISHED = {"base": 25.8, "better": 26.4, "worse": 24.9, "same": 25.7}


def a_family(metric: Metric = BLEU, marked: bool = True, **ends: tuple[float, float]) -> Family:
    """Rows with these intervals, around their middles."""
    tests = {
        row: RowTest(middle, low, high, 0.01 if marked else 0.2, 1.0, 1.0, Finding("better"), (middle, low, high))
        for row, (low, high) in ends.items()
        for middle in [(low + high) / 2]
    }
    return Family(metric, "base", {**tests})


def words(found: Family, published: dict[str, float | None]) -> dict[str, str]:
    given = verdict(found, published)
    assert given is not None
    return {row: each.text for row, each in given.rows.items()}


@pytest.mark.parametrize(
    ("ends", "marked", "word"),
    [
        ((0.1, 0.9), True, "agrees"),
        ((-0.9, -0.1), True, "disagrees"),
        ((-0.1, 0.9), True, "agrees"),  # the mark decides, not the stricter interval
        ((0.1, 0.9), False, "not shown"),
    ],
)
def test_a_published_difference(ends: tuple[float, float], marked: bool, word: str) -> None:
    assert words(a_family(marked=marked, better=ends), {**PUBLISHED}) == {"better": word}
    opposite = {"agrees": "disagrees", "disagrees": "agrees"}.get(word, word)
    assert words(a_family(marked=marked, worse=ends), {**PUBLISHED}) == {"worse": opposite}


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((-0.5, 0.5), "agrees"),
        ((0.1, 0.4), "agrees"),  # a difference is shown, but it is within the margin
        ((-0.6, 0.1), "not shown"),
        ((0.1, 0.6), "not shown"),
        ((0.6, 0.9), "disagrees"),
        ((-0.9, -0.6), "disagrees"),
    ],
)
def test_none_in_the_paper(ends: tuple[float, float], word: str) -> None:
    assert words(a_family(same=ends), {**PUBLISHED}) == {"same": f"{word} (none in the paper)"}
    without_margin = a_family(replace(BLEU, agrees_within=None), same=ends)
    assert words(without_margin, {**PUBLISHED}) == {"same": "not shown (none in the paper)"}


def test_the_bound_itself_is_none_in_the_paper() -> None:
    """25.7 − 25.8 is −0.1000000000000014 in floating point, and 4.94 − 4.92 is 0.020000000000000462."""
    found = a_family(row=(-0.005, 0.01))
    assert words(found, {"base": 25.8, "row": 25.7}) == {"row": "agrees (none in the paper)"}
    assert words(replace(found, metric=PPL), {"base": 4.92, "row": 4.94}) == {"row": "agrees (none in the paper)"}
    assert words(replace(found, metric=PPL), {"base": 4.92, "row": 4.95}) == {"row": "agrees"}


def test_rows_without_a_test_or_a_published_value() -> None:
    tested = a_family(better=(1, 2), mine=(1, 2))
    found = replace(tested, rows={**tested.rows, "worse": "1 seed", "other": "2 seeds"})
    assert words(found, {**PUBLISHED, "other": None}) == {"better": "agrees", "worse": "not tested: 1 seed"}
    assert verdict(found, {"better": 26.4}) is None
    assert verdict(found, {"base": 25.8, "other": None}) is None
    assert verdict(found, {"base": 25.8, "elsewhere": 1.0}) is None


def test_the_rule_names_its_numbers() -> None:
    assert "at most 0.1 is none in the paper" in rule(BLEU, "base")
    assert "within ± 0.5 BLEU" in rule(BLEU, "base")
    assert "at most 0.02" in rule(PPL, "base")
    assert "within ± 0.02 in ln PPL" in rule(PPL, "base")
    assert rule(PPL, "base").endswith("For that, PPL is compared as ln PPL.")
    assert "No margin is stated" in rule(Metric("accuracy"), "base")


def test_rank_agreement_is_that_of_scipy_with_a_permutation_p() -> None:
    chance = np.random.default_rng(3)
    ours, theirs = chance.normal(size=6), np.round(chance.normal(size=6), 1)
    theirs[0] = theirs[1]  # a tie
    orders = [abs(stats.kendalltau(order, theirs).statistic) for order in itertools.permutations(ours)]
    found = rank_agreement(list(zip(ours, theirs, strict=True)))
    assert found is not None
    (spearman, _), (kendall, p) = found
    assert spearman == pytest.approx(stats.spearmanr(ours, theirs).statistic)
    assert kendall == pytest.approx(stats.kendalltau(ours, theirs).statistic)
    assert p == pytest.approx(np.mean(np.array(orders) >= abs(kendall) - 1e-9), abs=0.015)
    assert rank_agreement([(1.0, 1.0), (2.0, 2.0)]) is None
    assert rank_agreement([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]) is None


def test_the_order_is_told_in_words() -> None:
    given = verdict(a_family(low=(1, 1), middle=(2, 2), high=(3, 3)), {"base": 5, "low": 6, "middle": 7, "high": 8})
    assert given is not None
    assert "Order of the 3 tested rows against the published order: Spearman's ρ 1.00 (p 0." in given.lines()[1]
