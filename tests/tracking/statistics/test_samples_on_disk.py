"""Chance over sentences, for studies on disk: what is tested against what, and why something is
not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import sentence_studies as made

from tracking.card import Metric
from tracking.statistics.samples import EvaluatedSet, SampleTest, evaluated, paired_tests, resampled
from tracking.study import Study, StudyTrial

ROWS = {"base": 0.6, "better": 0.95, "like": 0.62}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return made.make(tmp_path / "reading", ROWS)


def against_base(study: Study, metric: Metric) -> dict[str, SampleTest | str]:
    """By trial: the test against base's trial of the same seed, or why there is none."""
    bases = {trial.seed: trial for trial in study.trials if trial.row == "base"}
    pairs = {}
    for trial in study.trials:
        if trial.row != "base":
            pairs[trial.name] = (
                _evaluated(study, trial, metric),
                _evaluated(study, bases[trial.seed], metric),
            )
    return paired_tests(metric, pairs, "sample")


def _evaluated(study: Study, trial: StudyTrial, metric: Metric) -> EvaluatedSet | str:
    return evaluated(study, trial, metric, "dev")


def reasons(study: Study) -> dict[str, str]:
    """Of the trials without a test."""
    tests = against_base(study, made.RIGHT)
    return {name: test for name, test in tests.items() if isinstance(test, str)}


def test_every_trial_is_tested_against_base_s_of_its_seed(study: Study) -> None:
    tests = against_base(study, made.RIGHT)
    assert sorted(tests) == ["better-s1", "better-s2", "like-s1", "like-s2"]
    for name, test in tests.items():
        assert isinstance(test, SampleTest)
        seed = name[-1]
        ours, base = (
            made.scores(_lines(study, trial))["accuracy"] for trial in (name, f"base-s{seed}")
        )
        assert test.difference == pytest.approx(ours - base)
        assert test.low < test.difference < test.high
        assert (test.p < 0.05) == name.startswith("better")


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
        ("reading-better-1", "reading-better-0", "belongs to a different training run"),
    ],
)
def test_a_trial_without_usable_samples_says_why_and_hinders_no_other(
    study: Study, pattern: str, changed: str, words: str
) -> None:
    path = _path(study, "better-s1")
    path.write_text(re.sub(pattern, changed, path.read_text(), count=1, flags=re.DOTALL))
    untested = reasons(study)
    assert words in untested["better-s1"]
    assert [*untested] == ["better-s1"]


def test_without_base_no_row_of_that_seed_is_tested(study: Study) -> None:
    (study.folder / "base-s2" / "result.json").unlink()
    _path(study, "better-s1").unlink()
    missing = "better-s1 has no statistics/dev.jsonl"
    interrupted = "base-s2 is interrupted"
    assert reasons(study) == {
        "better-s1": missing,
        "better-s2": interrupted,
        "like-s2": interrupted,
    }


def test_other_samples_are_not_compared(study: Study) -> None:
    fewer = made.lines(7, 0.5)[:-1]
    base = made.lines(7, 0.5)
    made.finish(study, 2, fewer)  # better-s1
    made.finish(study, 3, [line | {"tokens": 9} for line in base])  # better-s2
    assert reasons(study) == {"better-s1": "39 samples, but base-s1 has 40"}
    by_loss = against_base(study, made.LOSS)
    assert (
        by_loss["better-s2"]
        == "has different samples from base-s2, or counts them in different units"
    )


def test_other_data_means_other_samples_where_counts_cannot_show_it(study: Study) -> None:
    for trial, data in (("base-s1", "a"), ("better-s1", "b"), ("like-s1", "a")):
        text = json.dumps({"commit": None, "data_fingerprint": data})
        (study.folder / trial / "provenance.json").write_text(text)
    untested = reasons(study)
    assert "different samples" in untested["better-s1"]
    assert "like-s1" not in untested


def test_a_difference_with_its_interval_and_p_by_hand() -> None:
    """Differences 1 … 9, mean 5: shifted by it, |-4| and |4| reach 4; with one added to both
    counts, p is 3 / 10."""
    differences = np.arange(1.0, 10.0)
    sample_test = resampled(differences + 20, np.full(9, 20.0), 4.0, 7)
    assert sample_test == SampleTest(4.0, 1.2, 8.8, 0.3, 7)
    assert resampled(differences, differences, 0.0, 7) == SampleTest(0.0, 0.0, 0.0, 1.0, 7)
    assert resampled(np.array([1.0, np.nan]), np.zeros(2), 1.0, 7) is None
