"""A study's runs in MLflow are its own, by an identity that stays when its folder is moved; a copy
gets another."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from place import STUDY, TEN, Place, scores_of

pytestmark = pytest.mark.usefixtures("tracked")


@pytest.fixture
def server(tmp_path: Path, database: Path) -> Path:
    """The database of a store that several folders use."""
    return Path(shutil.copy(database, tmp_path / "server.db"))


def at(server: Path) -> str:
    return f"tracking.uri=sqlite:///{server}"


def score_again(study: Path, score: float) -> None:
    """As a command does, on a machine whose clock was set back."""
    file = study / "base-s1" / "result.json"
    content = json.loads(file.read_text())
    content["scores"]["test"]["score"] = score
    file.write_text(json.dumps(content | {"scoring": content.get("scoring", 1) + 1}))
    os.utime(file, (1_000_000_000, 1_000_000_000))


def values(scores: dict[str, list[tuple[str, float]]]) -> list[float]:
    return sorted(score for runs in scores.values() for _, score in runs)


def test_a_copy_takes_nothing_over_and_a_moved_folder_keeps_all(
    place: Place, another: Callable[[str], Place], server: Path
) -> None:
    place.train("base", at(server))
    copy = another("copy")
    shutil.copytree(place.study, copy.study)
    score_again(copy.study, 99.1)
    process = copy.type("sync", STUDY, at(server))
    assert values(scores_of(server)) == [4.0]
    assert process.returncode != 0
    output = process.stdout + process.stderr
    assert "`allelse sync --again sweep.name=toy`" in output
    assert str(place.study) in output

    copy.must("sync", STUDY, at(server), "--again")
    scores = scores_of(server)
    assert values(scores) == [4.0, 99.1]
    assert len(scores) == 2, "each has an experiment of its own"

    renamed = place.study.with_name("renamed")
    restored = place.study.with_name("restored")
    shutil.move(place.study, renamed)
    score_again(renamed, 3.0)
    place.must("sync", "sweep.name=renamed", at(server))
    assert values(scores_of(server)) == [3.0, 99.1]

    score_again(renamed, 5.0)
    shutil.copytree(renamed, restored)
    shutil.rmtree(renamed)
    assert "--again" in place.type("sync", "sweep.name=restored", at(server)).stderr
    assert values(scores_of(server)) == [3.0, 99.1]
    place.must("sync", "sweep.name=restored", at(server), "--again")
    assert values(scores_of(server)) == [3.0, 5.0, 99.1], "no run is lost"


def test_two_studies_of_one_name_share_no_run(
    trained: Place, another: Callable[[str], Place], server: Path
) -> None:
    trained.must("sync", STUDY, at(server))
    second_project = another("other")
    second_project.write({"parts/one.py": TEN})
    second_project.train("base", at(server))
    assert values(scores_of(server)) == [4.0, 40.0]
