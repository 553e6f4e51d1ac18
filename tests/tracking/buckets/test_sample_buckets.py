"""Scores by a number of the samples, by hand: buckets, scores, differences, tests and refusals."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import other_tasks
import pytest

from tracking.buckets.bucket import buckets
from tracking.buckets.bucket_caption import caption
from tracking.buckets.bucket_scores import BucketScores, bucket_scores
from tracking.buckets.quantity import Quantity, UngroupedError
from tracking.card import Card, Metric
from tracking.statistics.seeds.family import SeedScores, family
from tracking.study import Study
from tracking.table.study_table import whole_table
from tracking.trial import statistics_name, statistics_text

CARD = Card(
    "reading",
    1,
    (
        Metric("ppl", "PPL", "", "down", exp_of="nll", from_counts=("exp_ratio", "nats", "tokens")),
        Metric("accuracy", "accuracy", from_counts=("mean", "right")),
        Metric("speed", "speed"),
        Metric("nll", "NLL", "", "down", tabled=False, from_counts=("ratio", "nats", "tokens")),
    ),
)
TOKENS = (2, 2, 4, 4, 8, 8)
NATS = {"base": (1.0, 1.0, 2.0, 2.0, 4.0, 4.0), "far": (1.0, 1.0, 2.0, 2.0, 8.0, 6.0)}
"""With seed 1. Base has half a nat per token everywhere; far has more in long samples."""
SHIFTS = {1: 0.0, 2: 0.01, 3: -0.02}
"""Of the nats per token, by seed; far varies twice as much."""
Sample = dict[str, Any]


def samples(row: str, seed: int) -> list[Sample]:
    shift = SHIFTS[seed] * (2 if row == "far" else 1)
    return [
        {"nats": nats + shift * tokens, "tokens": tokens, "right": place % 2, "age": 90 - place}
        for place, (nats, tokens) in enumerate(zip(NATS[row], TOKENS, strict=True))
    ]


def finish(study: Study, place: int, lines: list[Sample]) -> None:
    nll = sum(line["nats"] for line in lines) / sum(line["tokens"] for line in lines)
    accuracy = sum(line["right"] for line in lines) / len(lines)
    scores = {"nll": nll, "ppl": math.exp(nll), "accuracy": accuracy, "speed": 7.0, "decode": {}}
    other_tasks.train(study, place, {"dev": scores})
    trial = study.trials[place]
    head = {"key": trial.key, "step": 10, "scores": scores}
    text = statistics_text(head, lines)
    study.trial_folder(trial).write_artifact(statistics_name("dev"), text)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Base and far with three seeds."""
    rows: dict[str, dict[str, Any]] = {"base": {"depth": 1}, "far": {"depth": 2}}
    study = other_tasks.make(tmp_path / "reading", CARD, rows, (1, 2, 3))
    for number, trial in enumerate(study.trials):
        finish(study, number, samples(trial.row, trial.seed))
    return study


def scored(study: Study, name: str = "length", cuts: tuple[float, ...] = (2, 4)) -> BucketScores:
    return bucket_scores(whole_table(study), name, cuts).tested()


def test_each_bucket_is_scored_from_the_sums_of_its_own_counts(study: Study) -> None:
    scores = scored(study)
    assert [(part.label, part.samples) for part in scores.buckets] == [("2", 2), ("4", 2), ("8", 2)]
    base, far = scores.tables[2].rows
    assert base.seed_values["ppl"][1] == pytest.approx(math.exp((4 + 4) / 16))
    assert far.seed_values["ppl"][1] == pytest.approx(math.exp((8 + 6) / 16))
    assert far.scores["ppl"] == pytest.approx(math.exp(14 / 16 + 2 * sum(SHIFTS.values()) / 3))
    delta = (
        far.scores["ppl"] - base.scores["ppl"] if far.scores["ppl"] and base.scores["ppl"] else 0
    )
    assert far.comparison.deltas["ppl"] == pytest.approx(delta)
    assert far.seed_values["accuracy"] == {1: 0.5, 2: 0.5, 3: 0.5}


def test_the_change_from_first_to_last_is_that_of_the_logarithm_of_a_perplexity(
    study: Study,
) -> None:
    base, far = scored(study).drift.rows
    assert base.seed_values["ppl"] == pytest.approx({1: 0.0, 2: 0.0, 3: 0.0})
    assert far.seed_values["ppl"] == pytest.approx({1: 6 / 16, 2: 6 / 16, 3: 6 / 16})
    assert far.comparison.deltas["ppl"] == pytest.approx(6 / 16)


def test_a_row_with_its_own_reference_is_not_tested_in_a_bucket_either(tmp_path: Path) -> None:
    rows: dict[str, dict[str, Any]] = {"base": {}, "far": {"depth": 2}, "farther": {"depth": 3}}
    study = other_tasks.make(tmp_path / "reading", CARD, rows, (1, 2, 3))
    for number, trial in enumerate(study.trials):
        lines = samples("base" if trial.row == "base" else "far", trial.seed)
        if trial.row == "farther":
            lines[0]["nats"] += 0.1 * trial.seed
        finish(study, number, lines)
    whole = whole_table(replace(study, references={"farther": "far"}))
    metric = CARD.metrics[0]
    assert whole.findings.test(whole.rows[2], metric) is not None
    tables = bucket_scores(whole, "length", (2, 4)).tables
    assert [table.findings.test(table.rows[2], metric) for table in tables] == [None] * 3


def test_the_change_is_tested_over_seeds_and_buckets_are_not(study: Study) -> None:
    metric = CARD.metrics[0]
    lines = {row: [samples(row, seed) for seed in (1, 2, 3)] for row in NATS}
    for row, seed, extra in (("far", 1, 0.0), ("far", 2, 0.4), ("far", 3, -0.2)):
        lines[row][seed - 1][5]["nats"] += extra
        lines["base"][seed - 1][0]["nats"] += extra / 9
        finish(study, seed - 1, lines["base"][seed - 1])
        finish(study, 2 + seed, lines["far"][seed - 1])
    scores = scored(study)
    assert [table.findings.test(table.rows[1], metric) for table in scores.tables] == [None] * 3
    changes = {
        "base": {1: 0.0, 2: -0.4 / 9 / 4, 3: 0.2 / 9 / 4},
        "far": {1: 6 / 16, 2: 6.4 / 16, 3: 5.8 / 16},
    }
    expected = family(SeedScores(replace(CARD.metrics[3], name="ppl"), changes), "base")
    assert expected is not None
    test = scores.drift.findings.test(scores.drift.rows[1], metric)
    assert test is not None
    assert [test.difference, test.low, test.high, test.p] == pytest.approx(
        [getattr(expected.tests["far"], name) for name in ("difference", "low", "high", "p")]
    )
    assert scores.drift.findings.mark(scores.drift.rows[1], metric) == "▼"
    assert "Only last minus first is tested, over seeds of 1 row (Holm): ▼ worse" in caption(scores)


def test_without_three_seeds_nothing_is_tested_and_the_caption_says_so(study: Study) -> None:
    two_seeds = replace(study, trials=tuple(trial for trial in study.trials if trial.seed < 3))
    scores = scored(two_seeds)
    marks = [scores.drift.findings.mark(row, CARD.metrics[0]) for row in scores.drift.rows]
    assert marks == ["", ""]
    assert "Nothing is tested: 2 seeds (far)" in caption(scores)


def test_buckets_have_nearly_equal_numbers_and_never_part_equal_values() -> None:
    values = np.array([5.0] * 6 + [6.0] * 3 + [7.0] * 3 + [9.0] * 4)
    parts = buckets(Quantity("length", "tokens", values))
    assert [(part.label, part.samples) for part in parts] == [
        ("5", 6),
        ("6", 3),
        ("7", 3),
        ("9", 4),
    ]
    assert np.sum([part.is_inside_N for part in parts], axis=0).tolist() == [1] * 16
    two = buckets(Quantity("length", "tokens", np.array([3.0, 3.0, 4.0])))
    assert [(part.label, part.samples) for part in two] == [("3", 2), ("4", 1)]
    given = buckets(Quantity("length", "tokens", values), (6, 8))
    assert [part.label for part in given] == ["5–6", "7", "9"]


@pytest.mark.parametrize(
    ("values", "cuts", "words"),
    [
        ([3, 3], (), "has only one length in tokens: 3"),
        ([3, 9], (2,), "leaves a bucket empty up to 2; length in tokens goes from 3 to 9"),
        ([3, 9], (4, 6), "leaves a bucket empty from 4 to 6"),
        ([3, 9], (9,), "leaves a bucket empty above 9"),
    ],
)
def test_an_empty_bucket_is_refused(
    values: list[float], cuts: tuple[float, ...], words: str
) -> None:
    with pytest.raises(UngroupedError, match=words):
        buckets(Quantity("length", "tokens", np.array(values, float)), cuts)


def test_a_task_groups_by_any_number_of_its_own_that_no_trial_changes(study: Study) -> None:
    assert [part.label for part in scored(study, "age", (87,)).buckets] == ["85–87", "88–90"]
    for outcome in ("nats", "right", "lenght"):
        with pytest.raises(UngroupedError, match=f'"{outcome}".* length, tokens, age'):
            scored(study, outcome)


def test_a_trial_without_the_same_samples_is_left_out_and_named(study: Study) -> None:
    other = [line | {"tokens": 2 * line["tokens"]} for line in samples("far", 2)]
    finish(study, 4, other)
    (study.folder / "far-s3" / "statistics" / "dev.jsonl").unlink()
    scores = scored(study)
    far = scores.tables[0].rows[1]
    assert [*far.seed_values["ppl"]] == [1]
    assert scores.left_out == (
        "speed has no counts of samples",
        "far-s2 has samples with other numbers of tokens",
        "far-s3 has no statistics/dev.jsonl",
    )
    assert "far-s3 has no statistics/dev.jsonl" in caption(scores)


def test_a_file_with_a_sample_that_lacks_the_number_is_refused_with_its_line(study: Study) -> None:
    path = study.folder / "base-s1" / "statistics" / "dev.jsonl"
    path.write_text(path.read_text().replace('"tokens": 8', '"tokens": null', 1))
    with pytest.raises(UngroupedError, match="line 6 must have numbers as tokens, but has None"):
        scored(study)


def test_a_row_without_counts_says_so(study: Study) -> None:
    for seed in (1, 2, 3):
        (study.folder / f"far-s{seed}" / "statistics" / "dev.jsonl").unlink()
    far = scored(study).tables[0].rows[1]
    assert (far.scores["ppl"], far.status) == (None, "no counts")


def test_a_study_without_any_counts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UngroupedError, match="accuracy has none; no metric has counts"):
        scored(other_tasks.digits(tmp_path / "digits", 0.5, 0.6, 0.7, 0.8), cuts=())
