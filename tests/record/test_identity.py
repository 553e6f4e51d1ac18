"""A study's runs in MLflow are its own, by an identity that stays when its folder is moved; a copy gets another."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from place import STUDY, TEN, Place, scores_of


@pytest.fixture
def server(tmp_path: Path, database: Path) -> Path:
    """The database of a store that several folders use."""
    return Path(shutil.copy(database, tmp_path / "server.db"))


def at(server: Path) -> str:
    return f"tracking.uri=sqlite:///{server}"


def test_a_copy_takes_nothing_over_and_a_moved_folder_keeps_all(
    place: Place, another: Callable[[str], Place], server: Path
) -> None:
    place.train("base", at(server))
    before = scores_of(server)
    copy = another("copy")
    shutil.copytree(place.study, copy.study)
    file = copy.study / "base-s1" / "result.json"
    content = json.loads(file.read_text())
    content["scores"]["test"]["score"] = 99.1
    file.write_text(json.dumps(content))
    done = copy.type("sync", STUDY, at(server))
    assert scores_of(server) == before
    assert done.returncode != 0
    assert all(words in done.stdout + done.stderr for words in ("--moved", "--copy", str(place.study)))

    copy.must("sync", STUDY, at(server), "--copy")
    found = scores_of(server)
    assert sorted(score for runs in found.values() for _, score in runs) == [4.0, 99.1]
    assert len(found) == 2, "each has an experiment of its own"

    shutil.move(place.study, place.folder / "runs" / "renamed")
    place.must("sync", "sweep.name=renamed", at(server))
    assert scores_of(server) == found

    file = place.folder / "runs" / "renamed" / "base-s1" / "result.json"
    file.write_text(file.read_text().replace("4.0", "5.0"))
    shutil.copytree(file.parents[1], place.folder / "runs" / "restored")
    shutil.rmtree(file.parents[1])
    assert "--moved" in place.type("sync", "sweep.name=restored", at(server)).stderr
    place.must("sync", "sweep.name=restored", at(server), "--moved")
    assert len([score for runs in scores_of(server).values() for _, score in runs]) == 2


def test_two_studies_of_one_name_share_no_run(place: Place, another: Callable[[str], Place], server: Path) -> None:
    place.train("base", at(server))
    other = another("other")
    other.write({"parts/one.py": TEN})
    other.train("base", at(server))
    assert sorted(score for runs in scores_of(server).values() for _, score in runs) == [4.0, 40.0]


def test_a_clock_that_was_set_back_hides_no_scoring(place: Place, server: Path) -> None:
    place.train("base", at(server))
    result = place.study / "base-s1" / "result.json"
    content = json.loads(result.read_text())
    content["scores"]["test"]["score"] = 3.0
    content["scoring"] = content.get("scoring", 1) + 1
    result.write_text(json.dumps(content))

    os.utime(result, (1_000_000_000, 1_000_000_000))
    place.must("sync", STUDY, at(server))
    assert [score for runs in scores_of(server).values() for _, score in runs] == [3.0]
