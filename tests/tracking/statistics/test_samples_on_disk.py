"""Chance over sentences, for studies on disk: what is tested against what, and why something is not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import sentence_studies as made

from tracking.statistics.samples import SampleTest, resampled, sample_tests
from tracking.study import Study

ROWS = {"base": 0.6, "better": 0.95, "like": 0.62}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return made.make(tmp_path / "reading", ROWS)


def reasons(study: Study) -> dict[str, dict[int, str]]:
    """Of the trials without a test."""
    found = sample_tests(study, made.RIGHT, "base").items()
    return {row: why for row, of in found if (why := {seed: it for seed, it in of.items() if isinstance(it, str)})}


def test_every_row_is_tested_against_base_with_its_own_seed(study: Study) -> None:
    found = sample_tests(study, made.RIGHT, "base")
    assert {row: [*seeds] for row, seeds in found.items()} == {"better": [1, 2], "like": [1, 2]}
    p = {}
    for row, seeds in found.items():
        for seed, test in seeds.items():
            assert isinstance(test, SampleTest)
            ours, base = (made.scores(_lines(study, f"{name}-s{seed}"))["accuracy"] for name in (row, "base"))
            assert test.difference == pytest.approx(ours - base)
            assert test.low < test.difference < test.high
            p[row, seed] = test.p, test.p_holm
    for seed in (1, 2):
        (better, of_better), (like, of_like) = p["better", seed], p["like", seed]
        assert better < 0.05
        assert of_better == pytest.approx(2 * better)
        assert of_like == pytest.approx(max(like, 2 * better))


def _path(study: Study, trial: str) -> Path:
    return study.folder / trial / "statistics" / "dev.jsonl"


def _lines(study: Study, trial: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in _path(study, trial).read_text().splitlines()[1:]]


@pytest.mark.parametrize(
    ("pattern", "changed", "words"),
    [
        (r".{9}\Z", "", "its last line is cut off"),
        (r"\{[^{]*\Z", "{}\n", "line 41 must have numbers as right"),
        ('"right": [01]', '"right": 0.5', "adds up to"),
        ("reading-better-1", "reading-better-0", "is of another training"),
    ],
)
def test_a_trial_without_usable_samples_says_why_and_hinders_no_other(
    study: Study, pattern: str, changed: str, words: str
) -> None:
    path = _path(study, "better-s1")
    path.write_text(re.sub(pattern, changed, path.read_text(), count=1, flags=re.DOTALL))
    found = reasons(study)
    assert words in found["better"][1]
    assert {row: [*seeds] for row, seeds in found.items()} == {"better": [1]}


def test_without_base_no_row_of_that_seed_is_tested(study: Study) -> None:
    (study.folder / "base-s2" / "result.json").unlink()
    _path(study, "better-s1").unlink()
    missing, interrupted = "better-s1 has no statistics/dev.jsonl", "base-s2 is interrupted"
    assert reasons(study) == {"better": {1: missing, 2: interrupted}, "like": {2: interrupted}}


def test_other_samples_and_other_settings_are_not_compared(study: Study) -> None:
    fewer, base = made.lines(7, 0.5)[:-1], made.lines(7, 0.5)
    made.finish(study, 2, fewer)  # better-s1
    made.finish(study, 4, base, **{"predict.threshold": 0.9})  # like-s1
    made.finish(study, 3, [line | {"tokens": 9} for line in base])  # better-s2
    found = reasons(study)
    assert found == {"better": {1: "39 samples, but base-s1 has 40"}, "like": {1: "predict.threshold 0.9, not 0.5"}}
    by_loss = sample_tests(study, made.LOSS, "base")
    assert by_loss["better"][2] == "has different samples than base-s2, or counts them in other units"
    assert isinstance(by_loss["like"][1], SampleTest), "no setting changes the loss"


def test_other_data_means_other_samples_where_counts_cannot_show_it(study: Study) -> None:
    for trial, data in (("base-s1", "a"), ("better-s1", "b"), ("like-s1", "a")):
        text = json.dumps({"commit": None, "data_fingerprint": data})
        (study.folder / trial / "provenance.json").write_text(text)
    found = reasons(study)
    assert "different samples" in found["better"][1]
    assert "like" not in found


def test_a_difference_with_its_interval_and_p_by_hand() -> None:
    """Differences 1 … 9, mean 5: shifted by it, |-4| and |4| reach 4; with one added to both counts, p is 3 / 10."""
    differences = np.arange(1.0, 10.0)
    found = resampled(differences + 20, np.full(9, 20.0), 4.0, 7)
    assert found == SampleTest(4.0, 1.2, 8.8, 0.3, 7)
    assert resampled(differences, differences, 0.0, 7) == SampleTest(0.0, 0.0, 0.0, 1.0, 7)
    assert resampled(np.array([1.0, np.nan]), np.zeros(2), 1.0, 7) is None
