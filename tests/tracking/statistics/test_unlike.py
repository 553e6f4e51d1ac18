"""Where rows of a study are not alike beyond what they change."""

import json
from pathlib import Path
from typing import Any

import pytest
import sentence_studies as made

from tracking.statistics.unlike import summary, unlike
from tracking.study import Study

ROWS = {"base": 0.5, "deep": 0.6, "wide": 0.7}
ALIKE: dict[str, Any] = {
    "commit": "a" * 40,
    "dirty": False,
    "versions": {"python": "3.11.7", "torch": "2.13.0", "mlflow": None},
    "host": "one",
    "cpu": {"model": "AMD EPYC", "count": 2},
    "device": "cpu",
}


@pytest.fixture
def study(tmp_path: Path) -> Study:
    found = made.make(tmp_path / "reading", ROWS)
    for trial in found.trials:
        came_from(found, trial.name)
    return found


def came_from(study: Study, trial: str, **other: Any) -> None:
    (study.folder / trial / "provenance.json").write_text(json.dumps(ALIKE | other))


def texts(study: Study) -> dict[str, list[str]]:
    return {row: [each.text for each in differences] for row, differences in unlike(study).items()}


def test_trials_of_one_machine_and_commit_are_alike_whatever_their_host_is_called(study: Study) -> None:
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
        ({"commit": "b" * 40}, "commit bbbbbbbbbbbb, not aaaaaaaaaaaa"),
        ({"commit": None}, "commit unknown, not aaaaaaaaaaaa"),
        ({"dirty": True}, "commit aaaaaaaaaaaa with changes, not aaaaaaaaaaaa"),
        (
            {"dirty": True, "changes": ["sweeps/a.py", "sweeps/b.py", "tracking/c.py", "tracking/d.py"]},
            "commit aaaaaaaaaaaa with changes in sweeps/a.py, sweeps/b.py, tracking/c.py, 1 more, not aaaaaaaaaaaa",
        ),
    ],
)
def test_each_difference_is_named_with_the_usual_value(study: Study, other: dict[str, Any], text: str) -> None:
    came_from(study, "deep-s2", **other)
    assert texts(study) == {"deep": [f"{text} (seed 2)"]}
    came_from(study, "deep-s1", **other)
    assert texts(study) == {"deep": [text]}


def test_a_line_below_the_table_lists_the_rows_of_each_difference(study: Study) -> None:
    for trial in ("deep-s1", "wide-s2"):
        came_from(study, trial, device="cpu × 2")
    came_from(study, "deep-s2", commit="c" * 40)
    assert summary(unlike(study)) == [
        "workers 2, not 1: deep, wide",
        "commit cccccccccccc, not aaaaaaaaaaaa: deep",
    ]


def test_missing_and_damaged_provenance_is_no_difference(study: Study) -> None:
    (study.folder / "deep-s1" / "provenance.json").unlink()
    (study.folder / "wide-s1" / "provenance.json").write_text("{")
    assert unlike(study) == {}
    came_from(study, "wide-s2", device="cpu × 2")
    assert texts(study) == {"wide": ["workers 2, not 1 (seed 2)"]}
