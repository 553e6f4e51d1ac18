"""From its first trial to its last a study trains with one version of the user's code, or says so everywhere."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from place import ONE, STUDY, TEN, Place

DIFFERS = "code ", "with another"


def ignored_folder(place: Place, tmp_path: Path) -> str:
    """``parts`` is what git ignores, as folders of data are."""
    place.write({".gitignore": "parts/\n"})
    return "parts/one.py"


def untracked_module(place: Place, tmp_path: Path) -> str:
    """A module beside the task, which git does not know; large folders of data lie there, too."""
    place.write({"extra.py": ONE, "parts/one.py": "from extra import one\n", "data/images/a/1.txt": "1"})
    return "extra.py"


def editable_install(place: Place, tmp_path: Path) -> str:
    """A package of another folder, as ``pip install --editable`` leaves it."""
    about = '{"url": "file://%s", "dir_info": {"editable": true}}' % (tmp_path / "lib")
    site = tmp_path / "site" / "lib_of_mine-1.0.dist-info"
    for path, text in {
        site / "METADATA": "Metadata-Version: 2.1\nName: lib-of-mine\nVersion: 1.0\n",
        site / "direct_url.json": about,
        tmp_path / "lib" / "src" / "mine" / "__init__.py": "",
        tmp_path / "lib" / "src" / "mine" / "adding.py": ONE,
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    place.environment["PYTHONPATH"] = f"{site.parent}:{tmp_path / 'lib' / 'src'}"
    place.write({"parts/one.py": "from mine.adding import one\n"})
    return "../lib/src/mine/adding.py"


@pytest.mark.parametrize("kept", [ignored_folder, untracked_module, editable_install])
def test_other_code_is_refused_with_its_diff(place: Place, tmp_path: Path, kept: Callable[[Place, Path], str]) -> None:
    file = kept(place, tmp_path)
    place.train("base")
    place.write({file: TEN, "notes.py": "# no file names this one\n"})
    said = place.refused("train", "task=toy", STUDY, "row=size_2", "--add")
    assert not (place.study / "size_2-s1").exists()
    for words in (Path(file).name, "- return 1.0", "+ return 10.0", "--changed-code"):
        assert words in said
    place.write({file: ONE})
    place.must("plan", "task=toy", STUDY, "sweep.rows=[base,size_2]", "--add")


def test_with_changed_code_every_output_marks_the_row(place: Place) -> None:
    place.train("base")
    place.write({"parts/one.py": TEN})
    place.train("size_2", "--add", "--changed-code")
    assert (place.score("base-s1"), place.score("size_2-s1")) == (4.0, 80.0)
    for form in ("md", "tex", "html"):
        assert all(words in place.table(form) for words in (*DIFFERS, "To compare like with like")), form
    for form in ("csv", "json"):
        assert all(words in place.table(form) for words in DIFFERS), form
    assert "-    return 1.0" in place.must("compare", "base", "size_2", STUDY)
    place.must("report", STUDY, "--output", "report.html")
    assert "with another parts/one.py" in (place.folder / "report.html").read_text()
    tables = [path.read_text() for path in (place.folder / "runs" / "mlflow-artifacts").rglob("table.md")]
    assert "with another parts/one.py" in tables[0]


def test_a_trial_that_two_versions_trained_is_marked_though_it_is_the_only_one(place: Place) -> None:
    place.write({"stops": ""})
    place.type("train", "task=toy", STUDY)
    place.write({"parts/one.py": TEN})
    assert "--changed-code" in place.refused("train", "task=toy", STUDY)
    place.train("base", "--changed-code")
    assert place.score("base-s1") not in (4.0, 40.0)
    assert "with another parts/one.py" in place.table()


def test_a_row_from_a_file_of_the_same_name_elsewhere_is_refused(place: Place, another: Callable[[str], Place]) -> None:
    place.train("base")
    other = another("there")
    other.write({"parts/one.py": TEN})
    runs = f"paths.runs={place.folder / 'runs'}"
    assert "+ return 10.0" in other.refused("train", "task=toy", STUDY, "row=size_2", runs, "--add")


def test_what_failed_before_its_first_step_is_mended_without_a_mark(place: Place) -> None:
    place.write({"parts/one.py": "def one():\n    return 1 / 0\n"})
    assert place.type("train", "task=toy", STUDY).returncode == 1
    place.write({"parts/one.py": ONE})
    place.train("base")
    assert "with another" not in place.table()


def test_a_moved_project_goes_on(place: Place, tmp_path: Path) -> None:
    place.train("base")
    shutil.move(place.folder, tmp_path / "moved")
    place.folder = tmp_path / "moved"
    place.must("plan", "task=toy", STUDY, "sweep.rows=[base,size_2]", "--add")


@pytest.mark.ray
def test_a_running_sweep_goes_on_with_the_code_that_it_began_with(place: Place) -> None:
    """The worker of a trial is lost after its second step, while the file is edited: another one takes over."""
    place.write({"dies": TEN})
    said = place.must("sweep", "task=toy", STUDY, "sweep.rows=[base,size_2]", "sweep.seeds=[1]")
    assert (place.score("base-s1"), place.score("size_2-s1")) == (4.0, 8.0)
    assert said.count("parts/one.py changed: this sweep goes on with the code that it began with") == 1
    assert "with another" not in place.table()
    assert "--changed-code" in place.refused("sweep", STUDY, "sweep.rows=[base,size_3]", "--add")
