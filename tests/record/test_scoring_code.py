"""Scores of a trained trial are of one version of the user's code, or the command says so."""

import json
from typing import Any

import pytest
from place import TEN, TOY, Place

WORK = 'trial.evaluated("test", {"score": done})'
EDITED = TOY.replace(WORK, 'trial.evaluated("test", {"score": 100 * done})')
BASE = ("task=toy", "sweep.name=toy", "base")
OTHER_CUT = "train.cut=0.7"


@pytest.fixture
def edited(trained: Place) -> Place:
    """Base is trained there to a score of 4, and a person has edited how it is scored since."""
    assert trained.score("base-s1") == 4.0
    assert EDITED != TOY
    trained.write({"toy.py": EDITED, "parts/one.py": TEN})
    return trained


def evaluated(project: Place, *words: str) -> tuple[dict[str, Any], str]:
    """The one line of `allelse evaluate`, and what it says beside."""
    process = project.type("evaluate", *BASE, *words, "--json")
    assert process.returncode == 0, process.stderr
    (line,) = json.loads(process.stdout)
    return line, " ".join(process.stderr.split())


def test_evaluate_scores_with_the_code_of_the_trial(edited: Place) -> None:
    line, _ = evaluated(edited, OTHER_CUT)
    assert (line["score"], line["now"]) == (4.0, True), "the edited code would say 400"
    line, _ = evaluated(edited, OTHER_CUT)
    assert (line["score"], line["now"]) == (4.0, False)
    (version,) = (
        path for path in (edited.study / "code").iterdir() if path.is_dir() and not path.suffix
    )
    next(version.rglob("toy.py")).unlink()
    refused = edited.refused("evaluate", *BASE, "train.cut=0.8")
    assert "lacks toy.py, which the study was trained with" in refused


def test_evaluate_knows_the_keys_of_the_only_task_of_its_folder(edited: Place) -> None:
    words = [word for word in BASE if not word.startswith("task=")]
    (line,) = json.loads(edited.must("evaluate", *words, OTHER_CUT, "--json"))
    assert line["score"] == 4.0


def test_evaluate_lists_no_score_of_other_code_without_a_word(edited: Place) -> None:
    edited.must("again", *BASE, OTHER_CUT)
    statistics_file = edited.study / "base-s1/statistics/test@cut0.7.jsonl"
    assert json.loads(statistics_file.read_text())["scores"]["score"] == 10.0, (
        "a verb of the task runs the code of now"
    )
    line, _ = evaluated(edited, OTHER_CUT)
    assert (line["score"], line["now"]) == (4.0, True)
    edited.must("again", *BASE)
    line, output = evaluated(edited)
    assert (line["score"], line["now"]) == (10.0, False)
    assert "toy/base-s1: its scores on test are not from the code that trained it" in output


def test_a_key_that_the_code_of_the_trial_lacks_is_refused(edited: Place) -> None:
    newer = EDITED.replace("Metric, Observes", "Metric, Neutral, Observes")
    newer = newer.replace(
        "Scores()]\n", "Scores()]\n    tail: Annotated[float, Scores(), Neutral(0.0)]\n", 1
    )
    base = edited.folder / "conf/task/toy/base.yaml"
    edited.write(
        {"toy.py": newer, str(base): base.read_text().replace("cut: 0.5", "cut: 0.5, tail: 0.0")}
    )
    line, _ = evaluated(edited, OTHER_CUT)
    assert line["score"] == 4.0
    refused = edited.refused("evaluate", *BASE, "train.tail=0.1")
    assert (
        "train.tail is not a setting of the code that trained toy/base-s1 leave it out" in refused
    )
