"""Prepared data trains with the code that made it alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from place import ONE, STUDY, TOY, Place

PREPARE = """
def prepare(configs, folder, told) -> None:
    (folder / "value.txt").write_text("1.0")


def again("""
WORK = "done += one() * trial.config.model.size"
PREPARED = WORK.replace("one()", 'float((trial.data / "value.txt").read_text())')
DECLARED = "prepare=prepare, fingerprint=lambda config: 'one', verbs="
PREPARING = TOY.replace("\ndef again(", PREPARE).replace(WORK, PREPARED).replace("verbs=", DECLARED)
EDITED = PREPARING.replace('"1.0"', '"10.0"')
AGAIN = "its data is prepared again"


@pytest.fixture
def prepared(place: Place) -> Place:
    """Base is trained on data that says 1."""
    place.write({"toy.py": PREPARING})
    assert AGAIN not in place.train("base")
    assert place.score("base-s1") == 4.0
    return place


def score_of(project: Place, name: str) -> float | None:
    return Place.score(Renamed(project.folder, name), "base-s1")


class Renamed(Place):
    """The same folder, with another study."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder)
        self.name = name

    @property
    def study(self) -> Path:
        return self.folder / "runs" / self.name


def test_an_edited_prepare_makes_its_own_data_for_another_study(prepared: Place) -> None:
    """And the study that was trained on the old one keeps that."""
    prepared.write({"toy.py": EDITED})
    output = prepared.must("train", "task=toy", "sweep.name=second")
    assert AGAIN in output
    assert score_of(prepared, "second") == 40.0
    prepared.write({"toy.py": PREPARING})
    assert AGAIN not in prepared.train("size_2", "--add")
    assert prepared.score("size_2-s1") == 8.0


def test_with_changed_code_the_rest_trains_on_the_data_of_the_new_code(prepared: Place) -> None:
    prepared.write({"toy.py": EDITED})
    assert AGAIN in prepared.train("size_2", "--add", "--changed-code")
    assert (prepared.score("base-s1"), prepared.score("size_2-s1")) == (4.0, 80.0)
    assert "size_2" in prepared.table("md").partition("code ")[2]
    prepared.must("again", "base-s1", "task=toy", STUDY)


def test_two_projects_with_one_folder_of_data_have_their_own(
    prepared: Place, another: Callable[[str], Place]
) -> None:
    second_project = another("other")
    second_project.write({"toy.py": EDITED})
    second_project.train("base", f"paths.data={prepared.folder / 'data'}")
    assert second_project.score("base-s1") == 40.0
    (prepared.folder / "parts" / "one.py").write_text(ONE)
    prepared.train("size_2", "--add")
    assert prepared.score("size_2-s1") == 8.0
