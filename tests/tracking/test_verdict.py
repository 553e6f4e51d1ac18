"""The verdict against the paper, by its printed rule."""

import math
from dataclasses import replace

import pytest

from tracking.card import Metric
from tracking.statistics.seed_tests import Family, RowTest
from tracking.statistics.verdict import MetricVerdict, rule, verdict
from transformer.card import CARD

PPL, BLEU = CARD.tabled
PUBLISHED = {"base": 25.8, "better": 26.4, "worse": 24.9, "same": 25.7}


def a_family(**ends: tuple[float, float]) -> Family:
    """Rows with these intervals, around their middles."""
    tests = {row: RowTest((low + high) / 2, low, high, 0.01, 0.01) for row, (low, high) in ends.items()}
    seeds = dict.fromkeys(["base", *tests], 3)
    return Family("base", tests, {}, seeds, dict.fromkeys(seeds, 0.3), 30.0, 0.3, 8, 2.9)


def words(metric: Metric, found: Family, published: dict[str, float | None]) -> dict[str, str]:
    given = verdict(metric, found, published)
    assert given is not None
    return {row: each.text for row, each in given.rows.items()}


@pytest.mark.parametrize(
    ("ends", "word"),
    [
        ((0.1, 0.9), "agrees"),
        ((-0.9, -0.1), "disagrees"),
        ((-0.1, 0.9), "not shown"),
        ((0.0, 0.9), "not shown"),
    ],
)
def test_a_published_difference(ends: tuple[float, float], word: str) -> None:
    assert words(BLEU, a_family(better=ends), {**PUBLISHED}) == {"better": word}
    opposite = {"agrees": "disagrees", "disagrees": "agrees"}.get(word, word)
    assert words(BLEU, a_family(worse=ends), {**PUBLISHED}) == {"worse": opposite}


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
    assert words(BLEU, a_family(same=ends), {**PUBLISHED}) == {"same": f"{word} (none in the paper)"}


def test_the_bound_itself_is_none_in_the_paper() -> None:
    """25.7 − 25.8 is −0.1000000000000014 in floating point, and 4.94 − 4.92 is 0.020000000000000462."""
    found = a_family(row=(-0.01, 0.01))
    assert words(BLEU, found, {"base": 25.8, "row": 25.7}) == {"row": "agrees (none in the paper)"}
    assert words(PPL, found, {"base": 4.92, "row": 4.94}) == {"row": "agrees (none in the paper)"}
    assert words(PPL, found, {"base": 4.92, "row": 4.95}) == {"row": "not shown"}


def test_without_a_margin_nothing_confirms_none() -> None:
    assert words(replace(BLEU, margin=None), a_family(same=(-0.1, 0.1)), {**PUBLISHED}) == {
        "same": "not shown (none in the paper)"
    }


def test_rows_without_a_test_or_a_published_value() -> None:
    found = replace(a_family(better=(1, 2), mine=(1, 2)), untested={"worse": "1 seed", "other": "2 seeds"})
    assert words(BLEU, found, {**PUBLISHED, "other": None}) == {"better": "agrees", "worse": "not tested: 1 seed"}
    assert verdict(BLEU, found, {"better": 26.4}) is None
    assert verdict(BLEU, found, {"base": 25.8, "other": None}) is None
    assert verdict(BLEU, found, {"base": 25.8, "elsewhere": 1.0}) is None


def given(metric: Metric, found: Family, published: dict[str, float | None]) -> MetricVerdict:
    made = verdict(metric, found, published)
    assert made is not None
    return made


def test_the_rule_names_its_numbers() -> None:
    assert "at most 0.1 is none in the paper" in rule(BLEU)
    assert "within ± 0.5 BLEU" in rule(BLEU)
    assert "at most 0.02" in rule(PPL)
    assert "within ± 0.02 in ln PPL" in rule(PPL)
    assert rule(PPL).endswith("PPL is compared as ln PPL.")
    assert "No margin is stated" in rule(Metric("accuracy"))


def test_the_margin_of_perplexity_is_two_percent() -> None:
    assert math.expm1(PPL.margin or 0) == pytest.approx(0.02, abs=3e-4)
