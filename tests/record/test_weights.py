"""Whose weights: a checkpoint belongs to the attempts of its trial and to their code, wherever it
lies."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from place import STUDY, TEN, Place


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A place for the checkpoints of several studies."""
    return f"paths.checkpoints={tmp_path / 'store'}"


def interrupted(project: Place, row: str, store: str) -> None:
    """The trial has checkpoints up to step 2, and no result."""
    (project.folder / "stops").touch()
    process = project.type("train", "task=toy", STUDY, f"row={row}", store)
    assert "stopped by a person" in process.stdout + process.stderr


def test_a_removed_study_leaves_its_weights_to_nobody(place: Place, store: str) -> None:
    """Also where it was finished, and nothing would be left to train."""
    place.train("base", store)
    assert place.score("base-s1") == 4.0
    place.must("rm", "toy", "--yes")
    place.write({"parts/one.py": TEN})
    plan = place.must("plan", "task=toy", STUDY, "sweep.rows=[base]", store)
    assert "already has checkpoints of base-s1 from another study named toy" in " ".join(
        plan.split()
    )
    place.train("base", store)
    assert place.score("base-s1") == 40.0


def test_two_projects_with_one_store_and_one_name_do_not_meet(
    place: Place, another: Callable[[str], Place], store: str
) -> None:
    interrupted(place, "base", store)
    second_project = another("other")
    second_project.write({"parts/one.py": TEN})
    second_project.train("base", store)
    assert second_project.score("base-s1") == 40.0
    place.train("base", store)
    assert place.score("base-s1") == 4.0
    assert "resumed at step 2" in (place.study / "base-s1" / "log.txt").read_text()


def test_a_dropped_row_that_is_added_again_trains_from_its_beginning(
    place: Place, store: str
) -> None:
    place.train("base", store)
    interrupted_row(place, store)
    place.must("drop", "size_2", STUDY, "--yes")
    place.write({"parts/one.py": TEN})
    place.train("size_2", store, "--add", "--changed-code")
    assert place.score("size_2-s1") == 80.0


def interrupted_row(project: Place, store: str) -> None:
    (project.folder / "stops").touch()
    process = project.type("train", "task=toy", STUDY, "row=size_2", store, "--add")
    assert "stopped by a person" in process.stdout + process.stderr


def test_a_dropped_trial_that_is_moved_back_goes_on_with_its_own_weights(
    place: Place, store: str
) -> None:
    place.train("base", store)
    interrupted_row(place, store)
    old_record = (place.study / "study.json").read_bytes()
    place.must("drop", "size_2", STUDY, "--yes")
    place.train("size_2", store, "--add")
    shutil.rmtree(place.study / "size_2-s1")
    (trash,) = place.study.parent.glob(".trash/*/size_2-s1")
    trash.rename(place.study / "size_2-s1")
    (place.study / "study.json").write_bytes(old_record)
    place.train("size_2", store)
    assert place.score("size_2-s1") == 8.0
    assert "resumed at step 2" in (place.study / "size_2-s1" / "log.txt").read_text()


def test_two_copies_of_a_study_share_a_past_and_no_further_weights(
    place: Place, another: Callable[[str], Place], store: str
) -> None:
    """The second one, whose code was changed, does not take what the first one trained after step
    2."""
    interrupted(place, "base", store)
    copy = another("copy")
    shutil.copytree(place.study, copy.study)
    place.train("base", store)
    copy.write({"parts/one.py": TEN})
    copy.train("base", store, "--changed-code")
    assert (place.score("base-s1"), copy.score("base-s1")) == (4.0, 40.0)


def test_a_moved_study_keeps_its_weights(
    place: Place, another: Callable[[str], Place], store: str
) -> None:
    interrupted(place, "base", store)
    moved = another("moved")
    shutil.rmtree(moved.folder)
    shutil.move(place.folder, moved.folder)
    moved.train("base", store)
    assert moved.score("base-s1") == 4.0
    assert "resumed at step 2" in (moved.study / "base-s1" / "log.txt").read_text()


def test_weights_of_code_that_the_study_does_not_name_are_passed_over(
    place: Place, store: str
) -> None:
    """The store was away when today's code was planned, so it counts as the first; then the store
    is back."""
    interrupted(place, "base", store)
    folder = Path(store.partition("=")[2])
    trial = place.study / "base-s1"
    away = folder.rename(place.folder / "away")
    (trial / "journal.jsonl").unlink()
    place.write({"parts/one.py": TEN})
    place.train("base", store)
    assert len(json.loads((place.study / "study.json").read_text())["code"]) == 1
    (trial / "result.json").unlink()
    shutil.rmtree(folder)
    away.rename(folder)
    place.train("base", store)
    assert place.score("base-s1") == 40.0
    assert "code that the study does not know trained it" in (trial / "log.txt").read_text()
