"""Where rows of a study are not alike beyond what they change."""

import json
from dataclasses import replace
from typing import Any

import pytest
import sentence_studies as made

from tracking.statistics.unlike_trials import beyond_change, summary, unlike
from tracking.study import Study

ROWS = {"base": 0.5, "deep": 0.6, "wide": 0.7}
ALIKE: dict[str, Any] = {
    "commit": "a" * 40,
    "own_files": "a" * 64,
    "code": "d" * 64,
    "dirty": False,
    "versions": {"python": "3.11.7", "torch": "2.13.0", "mlflow": None},
    "host": "one",
    "cpu": {"model": "AMD EPYC", "count": 2},
    "device": "cpu",
}


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return made.make(tmp_path_factory.mktemp("runs") / "reading", ROWS)


@pytest.fixture
def study(reading: Study) -> Study:
    """All trials came from the same."""
    for trial in reading.trials:
        came_from(reading, trial.name)
    return reading


def came_from(study: Study, trial: str, **changes: Any) -> None:
    (study.folder / trial / "provenance.json").write_text(json.dumps(ALIKE | changes))


def texts(study: Study) -> dict[str, list[str]]:
    row_texts = {}
    for row, differences in unlike(study).items():
        row_texts[row] = [difference.text for difference in differences]
    return row_texts


def test_trials_of_one_machine_and_commit_are_alike_whatever_their_host_is_called(
    study: Study,
) -> None:
    came_from(study, "deep-s1", host="two", cpu={"model": "AMD EPYC", "count": 64})
    assert unlike(study) == {}


@pytest.mark.parametrize(
    ("other", "text"),
    [
        ({"cpu": {"model": "Intel Xeon", "count": 2}}, "CPU Intel Xeon, not AMD EPYC"),
        ({"cpu": None}, "CPU unknown, not AMD EPYC"),
        ({"device": "NVIDIA H200"}, "device NVIDIA H200, not cpu"),
        ({"device": "cpu × 4"}, "workers 4, not 1"),
        ({"versions": {"python": "3.11.7", "torch": "2.12.0"}}, "torch 2.12.0, not 2.13.0"),
        ({"own_files": "b" * 64}, "files of allelse bbbbbbbbbbbb, not aaaaaaaaaaaa"),
        ({"code": "c" * 64}, "code cccccccccccc, not dddddddddddd"),
    ],
)
def test_each_difference_is_named_with_the_usual_value(
    study: Study, other: dict[str, Any], text: str
) -> None:
    came_from(study, "deep-s2", **other)
    assert texts(study) == {"deep": [f"{text} (seed 2)"]}
    came_from(study, "deep-s1", **other)
    assert texts(study) == {"deep": [text]}


def test_cpus_of_one_name_differ_by_generation_where_both_records_have_it(study: Study) -> None:
    def epyc(generation: str) -> dict[str, Any]:
        return {"cpu": {"model": "AMD EPYC", "generation": generation, "count": 2}}

    came_from(study, "base-s1", **epyc("family 25, model 17"))
    came_from(study, "wide-s1", **epyc("family 25, model 17"))
    assert unlike(study) == {}, "the other records don't have it"
    came_from(study, "deep-s1", **epyc("family 26, model 2"))
    assert texts(study) == {
        "deep": ["CPU generation family 26, model 2, not family 25, model 17 (seed 1)"]
    }
    other = {"model": "Intel Xeon", "generation": "family 6, model 85", "count": 2}
    came_from(study, "deep-s1", cpu=other)
    assert texts(study) == {"deep": ["CPU Intel Xeon, not AMD EPYC (seed 1)"]}


def test_a_line_below_the_table_lists_the_rows_of_each_difference(study: Study) -> None:
    for trial in ("deep-s1", "wide-s2"):
        came_from(study, trial, device="cpu × 2")
    came_from(study, "deep-s2", own_files="c" * 64)
    assert summary(unlike(study)) == [
        "workers 2, not 1: deep, wide",
        "files of allelse cccccccccccc, not aaaaaaaaaaaa: deep",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu": None}, "differs from most trials beyond its change"),
        ({"code": "e" * 64}, "differs from the first trials beyond its change"),
        (
            {"cpu": None, "code": "e" * 64},
            "differs from most or the first trials beyond its change",
        ),
    ],
)
def test_the_code_of_the_first_trials_is_the_expected_one(
    study: Study, changes: dict[str, Any], words: str
) -> None:
    for seed in (1, 2):
        came_from(study, f"deep-s{seed}", **changes)
    rows = unlike(replace(study, code=("d" * 64, "e" * 64)))
    assert list(rows) == ["deep"]
    assert beyond_change(rows) == words


def test_missing_and_damaged_provenance_is_no_difference(study: Study) -> None:
    (study.folder / "deep-s1" / "provenance.json").unlink()
    (study.folder / "wide-s1" / "provenance.json").write_text("{")
    assert unlike(study) == {}
    came_from(study, "wide-s2", device="cpu × 2")
    assert texts(study) == {"wide": ["workers 2, not 1 (seed 2)"]}


def attempt(number: int, start: int, **changes: Any) -> dict[str, Any]:
    return {**ALIKE, "attempt": number, "from": start, "steps": 2, **changes}


def test_every_attempt_counts_whose_steps_are_in_the_weights_and_no_other(study: Study) -> None:
    step = json.loads((study.folder / "deep-s1" / "result.json").read_text())["step"]
    torch = {"versions": {"torch": "2.12.0"}}
    came_from(study, "deep-s1", attempts=[attempt(1, 0), attempt(2, step, **torch)])
    assert texts(study) == {}
    came_from(study, "deep-s1", attempts=[attempt(1, 0, **torch), attempt(2, step - 1)])
    assert texts(study) == {"deep": ["torch 2.12.0, then 2.13.0, not 2.13.0 (seed 1)"]}


@pytest.mark.parametrize(
    ("trained", "scored", "told"),
    [
        (
            {},
            {"base": "2.6", "deep": "2.6", "wide": "2.0"},
            {"wide": ["torch of scoring 2.0, not 2.6 (seed 1)"]},
        ),
        (
            {"base": "2.6"},
            {"base": "2.6", "deep": "2.6", "wide": "2.6"},
            {"base": ["torch 2.6, not 2.13.0 (seed 1)"]},
        ),
        (
            {"deep": "2.6"},
            {"deep": "2.6"},
            {"deep": ["torch 2.6, not 2.13.0 (seed 1)"]},
        ),  # said once
    ],
)
def test_another_package_that_scored_is_told_even_if_all_were_trained_alike(
    study: Study, trained: dict[str, str], scored: dict[str, str], told: dict[str, list[str]]
) -> None:
    for row in ROWS:
        versions = {"torch": trained.get(row, "2.13.0")}
        scorings = [
            {"scoring": 1, "sets": ["dev"], "versions": {"torch": scored.get(row, "2.13.0")}}
        ]
        came_from(study, f"{row}-s1", versions=versions, scorings=scorings)
    assert texts(study) == told
