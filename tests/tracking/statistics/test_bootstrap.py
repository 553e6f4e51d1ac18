"""Chance over sentences, for studies on disk: what is tested against what, and why something is not."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sentence_studies as made

from tracking.statistics.bootstrap import SampleTests, sample_tests
from tracking.study import Study

ROWS = {"base": 0.6, "better": 0.95, "like": 0.62}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return made.make(tmp_path / "reading", ROWS)


def against_base(study: Study) -> SampleTests:
    return sample_tests(study, made.RIGHT, "base")


def test_every_row_is_tested_against_base_with_its_own_seed(study: Study) -> None:
    found = against_base(study)
    assert found.untested == {}
    assert {row: sorted(seeds) for row, seeds in found.tests.items()} == {"better": [1, 2], "like": [1, 2]}
    for seed in (1, 2):
        for row, test in ((row, seeds[seed]) for row, seeds in found.tests.items()):
            ours, base = (made.scores(_lines(study, f"{name}-s{seed}"))["accuracy"] for name in (row, "base"))
            assert test.difference == pytest.approx(ours - base)
            assert test.low < test.difference < test.high
        better, like = found.tests["better"][seed], found.tests["like"][seed]
        assert better.p_holm == pytest.approx(2 * better.p)
        assert like.p_holm == pytest.approx(max(like.p, 2 * better.p))
    assert found.tests["better"][1].p < 0.05 < found.tests["like"][1].p


def _path(study: Study, trial: str) -> Path:
    return study.folder / trial / "statistics" / "dev.jsonl"


def _lines(study: Study, trial: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in _path(study, trial).read_text().splitlines()[1:]]


def _edit(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    path.write_text("".join(f"{line}\n" for line in change(path.read_text().splitlines())))


def _flip(lines: list[str]) -> list[str]:
    return [
        lines[0],
        lines[1].replace('"right": 1', '"right": 0.25').replace('"right": 0,', '"right": 0.75,'),
        *lines[2:],
    ]


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "better-s1 has no statistics/dev.jsonl"),
    "cut off": (lambda path: path.write_text(path.read_text()[:-9]), "its last line is cut off"),
    "no count": (lambda path: _edit(path, lambda lines: [*lines[:-1], "{}"]), "line 41 must have numbers as right"),
    "other sum": (lambda path: _edit(path, _flip), "adds up to"),
    "other training": (
        lambda path: _edit(path, lambda lines: [lines[0].replace("reading-better-1", "reading-better-0"), *lines[1:]]),
        "is of another training",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_trial_without_usable_samples_says_why_and_hinders_no_other(study: Study, name: str) -> None:
    damage, words = DAMAGES[name]
    damage(_path(study, "better-s1"))
    found = against_base(study)
    assert words in found.untested["better"][1]
    assert sorted(found.tests["better"]) == [2]
    assert found.tests["like"][1].p_holm == found.tests["like"][1].p


def test_without_base_no_row_of_that_seed_is_tested(study: Study) -> None:
    (study.folder / "base-s2" / "result.json").unlink()
    found = against_base(study)
    assert found.untested == {"better": {2: "base-s2 is interrupted"}, "like": {2: "base-s2 is interrupted"}}
    assert found.seeds == [1]


def test_other_samples_and_other_settings_are_not_compared(study: Study) -> None:
    fewer, base = made.lines(7, 0.5)[:-1], made.lines(7, 0.5)
    made.finish(study, 2, fewer)  # better-s1
    made.finish(study, 4, base, **{"predict.threshold": 0.9})  # like-s1
    made.finish(study, 3, [line | {"tokens": 9} for line in base])  # better-s2
    found = against_base(study)
    assert found.untested["better"] == {1: "39 samples, but base-s1 has 40"}
    assert found.untested["like"] == {1: "predict.threshold 0.9, not 0.5"}
    by_loss = sample_tests(study, made.LOSS, "base")
    assert by_loss.untested["better"][2] == "other samples than base-s2, or counted in other units"
    assert sorted(by_loss.tests["like"]) == [1, 2]  # no setting changes the loss


def test_other_data_means_other_samples_where_counts_cannot_show_it(study: Study) -> None:
    for trial, data in (("base-s1", "a"), ("better-s1", "b"), ("like-s1", "a")):
        text = json.dumps({"commit": None, "data_fingerprint": data})
        (study.folder / trial / "provenance.json").write_text(text)
    assert "other samples" in against_base(study).untested["better"][1]
    assert sorted(against_base(study).tests["like"]) == [1, 2]
