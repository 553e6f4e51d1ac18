"""From its first trial to its last a study trains with one version of the user's code, or says so everywhere."""

import shutil
import subprocess
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from place import COMMAND, ONE, STUDY, TEN, TOY, Place

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


REACHING = """
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "lib-1.0"))
NAME = "small"


def one():
    import_module("numbers")  # of Python itself
    return import_module(f"nets.{NAME}").one() * import_module("unit").value
"""


def test_code_behind_a_link_and_names_that_a_program_computes_are_recorded(place: Place, tmp_path: Path) -> None:
    """The folder on the path has a name that no module has; Python itself lies in an environment below the task."""
    place.write({"parts/one.py": REACHING, "lib-1.0/unit.py": "value = 1\n", "../elsewhere/nets/small.py": ONE})
    (place.folder / "nets").symlink_to(tmp_path / "elsewhere" / "nets")
    place.write({"env/conda-meta/history": "", "env/lib/python3.11/site.py": "# of Python"})
    place.train("base")
    assert place.score("base-s1") == 4.0
    assert "nets/small.py" in recorded_files(place)
    assert not any(name.startswith("env/") for name in recorded_files(place))
    for edited, before in {"nets/small.py": ONE, "lib-1.0/unit.py": "value = 1\n"}.items():
        place.write({edited: TEN})
        assert f"began: {edited}" in place.refused("plan", "task=toy", STUDY, "sweep.rows=[base,size_2]", "--add")
        place.write({edited: before})


def recorded_files(place: Place) -> list[str]:
    (archive,) = (place.study / "code").glob("*.zip")
    return zipfile.ZipFile(archive).namelist()


def test_a_lost_archive_of_code_does_not_end_a_study(place: Place) -> None:
    place.train("base")
    (archive,) = (place.study / "code").glob("*.zip")
    archive.write_text("cut off")
    place.train("size_2", "--add")
    assert "parts/one.py" in recorded_files(place), "it is the same code, so it is kept again"
    archive.unlink()
    place.write({"parts/one.py": TEN})
    assert "--changed-code" in place.refused("train", "task=toy", STUDY, "row=size_3", "--add")
    place.must("table", STUDY)
    place.train("size_3", "--add", "--changed-code")
    assert "size_3" in place.table("md").partition("code ")[2]


VERB = """

def again(trial: Trained[Config]) -> None:
    from parts.one import one

    trial.evaluated("test", {"score": one()})


task = replace(task, verbs=(again,))
"""


def test_a_verb_that_scores_with_other_code_marks_the_row(place: Place) -> None:
    toy = TOY.replace("import Metric,", "import Metric, Trained,").replace(
        "import dataclass", "import dataclass, replace"
    )
    place.write({"toy.py": toy + VERB})
    place.train("base")
    place.must("again", "base-s1", "task=toy", STUDY)
    assert "with another" not in place.table()
    place.write({"parts/one.py": TEN})
    place.must("again", "base-s1", "task=toy", STUDY)
    assert place.score("base-s1") == 10.0
    assert "code of scoring" in place.table()
    assert "with another parts/one.py" in place.table()


def test_a_trial_that_runs_keeps_its_code_though_it_has_no_step_yet(place: Place) -> None:
    place.write({"waits": ""})
    command = [str(COMMAND), "train", "task=toy", STUDY]
    with subprocess.Popen(command, cwd=place.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            while not (place.folder / "waited").exists():
                assert running.poll() is None
                time.sleep(0.1)
            place.write({"parts/one.py": TEN})
            assert "--changed-code" in place.refused("plan", "task=toy", STUDY, "sweep.rows=[base,size_2]", "--add")
        finally:
            (place.folder / "waits").unlink()
    assert place.score("base-s1") == 4.0


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
