"""From its first trial to its last a study trains with one version of the user's code, or says so
everywhere."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from place import ONE, STUDY, TEN, TOY, Place
from served_commands import PROGRAM

DIFFERS = "code ", " changed)"
PLAN = ("plan", "task=toy", STUDY, "sweep.rows=[base,size_2]", "--add")
REACHING = """
import sys
from importlib import import_module
from pathlib import Path

from extra import value
from mine.adding import one as added

sys.path.insert(0, str(Path(__file__).parents[1] / "lib-1.0"))
NAME = "small"


def one():
    import_module("numbers")  # of Python itself
    return import_module(f"nets.{NAME}").one() * import_module("unit").value * value * added()
"""
VALUE = "value = 1\n"


def code_of(project: Place) -> Path:
    """The folder of the one version that the study has."""
    (folder,) = (
        path for path in (project.study / "code").iterdir() if path.is_dir() and not path.suffix
    )
    return folder


def git(project: Place, *words: str) -> None:
    command = [
        "git",
        "-C",
        str(project.folder),
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        *words,
    ]
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull}
    subprocess.run(command, check=True, capture_output=True, env=environment)


def test_other_code_is_refused_with_its_diff_wherever_it_lies(place: Place, tmp_path: Path) -> None:
    """In a folder that git ignores, a module that git does not know, an editable install, behind a
    link, below a folder whose name no module has; names are computed. A file that git tracks counts
    though nothing names it, and one that is neither does not. Python itself lies in an environment
    below the task."""
    direct_url = '{"url": "file://%s", "dir_info": {"editable": true}}' % (tmp_path / "lib")
    place.write(
        {
            ".gitignore": "parts/\n",
            "parts/one.py": REACHING,
            "extra.py": VALUE,
            "lib-1.0/unit.py": VALUE,
        }
    )
    place.write(
        {
            "env/conda-meta/history": "",
            "env/lib/python3.11/site.py": "# of Python",
            "data/a/1.txt": "1",
        }
    )
    lib = "../lib/src/mine"
    place.write(
        {"../elsewhere/nets/small.py": ONE, f"{lib}/__init__.py": "", f"{lib}/adding.py": ONE}
    )
    site = "../site/lib_of_mine-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: lib-of-mine\nVersion: 1.0\n"
    place.write({f"{site}/METADATA": metadata, f"{site}/direct_url.json": direct_url})
    (place.folder / "nets").symlink_to(tmp_path / "elsewhere" / "nets")
    place.environment["PYTHONPATH"] = f"{tmp_path / 'site'}:{tmp_path / 'lib' / 'src'}"
    place.write({"tracked.py": VALUE, "notes.py": "# no file names this one\n"})
    git(place, "init")
    git(place, "add", "toy.py", "tracked.py", "conf")
    place.train("base")
    assert place.score("base-s1") == 4.0
    files = json.loads((code_of(place) / "code.json").read_text())["files"]
    assert not [name for name in files if name.startswith("env/") or name == "notes.py"]
    place.write({"notes.py": "# nor after an edit\n"})
    for file in (
        "parts/one.py",
        "extra.py",
        f"{lib}/adding.py",
        "nets/small.py",
        "lib-1.0/unit.py",
        "tracked.py",
    ):
        original = (place.folder / file).read_text()
        place.write({file: TEN + VALUE.replace("1", "10")})
        refusal = place.refused(*PLAN)
        assert all(
            words in refusal for words in (Path(file).name, "+ return 10.0", "--changed-code")
        ), file
        place.write({file: original})
    place.must(*PLAN)


def test_a_lost_archive_of_code_does_not_end_a_study(trained: Place) -> None:
    folder = code_of(trained)
    (recorded,) = folder.rglob("parts/one.py")
    recorded.chmod(0o644)
    recorded.write_text(TEN)
    trained.train("size_2", "--add")
    assert trained.score("size_2-s1") == 8.0
    (recorded,) = folder.rglob("parts/one.py")
    assert recorded.read_text() == ONE, "it is the same code, so it is kept again"
    shutil.rmtree(folder)
    trained.write({"parts/one.py": TEN})
    assert "--changed-code" in trained.refused("train", "task=toy", STUDY, "row=size_3", "--add")
    trained.train("size_3", "--add", "--changed-code")
    assert "size_3" in trained.table("md").partition("code ")[2]


def test_a_verb_that_scores_with_other_code_marks_the_row(trained: Place) -> None:
    """As long as other rows are scored with the old one."""
    trained.train("size_2", "--add")
    again = ("again", "base-s1", "task=toy", STUDY)
    trained.must(*again)
    assert " changed)" not in trained.table()
    trained.write({"parts/one.py": TEN})
    trained.must(*again)
    assert trained.score("base-s1") == 10.0
    table = trained.table()
    assert all(words in table for words in ("code of scoring", "(parts/one.py changed)"))
    trained.must("again", "size_2-s1", "task=toy", STUDY)
    assert " changed)" not in trained.table()


def test_a_trial_that_runs_keeps_its_code_though_it_has_no_step_yet(place: Place) -> None:
    place.write({"waits": ""})
    command = [str(PROGRAM), "train", "task=toy", STUDY]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=place.folder, stdout=silent, stderr=silent) as running:
        try:
            while not (place.folder / "waited").exists():
                assert running.poll() is None
                time.sleep(0.1)
            place.write({"parts/one.py": TEN})
            assert "--changed-code" in place.refused(*PLAN)
        finally:
            (place.folder / "waits").unlink()
    assert place.score("base-s1") == 4.0


@pytest.mark.usefixtures("tracked")
def test_with_changed_code_every_output_marks_the_row(trained: Place) -> None:
    trained.write({"parts/one.py": TEN})
    trained.train("size_2", "--add", "--changed-code")
    assert (trained.score("base-s1"), trained.score("size_2-s1")) == (4.0, 80.0)
    assert all(words in trained.table("md") for words in (*DIFFERS, "For a fair comparison"))
    assert all(words in trained.table("json") for words in DIFFERS)
    assert "-    return 1.0" in trained.must("compare", "base", "size_2", STUDY)
    trained.must("report", STUDY, "--no-figures", "--output", "report.html")
    assert "(parts/one.py changed)" in (trained.folder / "report.html").read_text()
    (table,) = (trained.folder / "runs" / "mlflow-artifacts").rglob("table.md")
    assert "(parts/one.py changed)" in table.read_text()


def test_code_is_free_until_a_step_and_a_trial_that_two_versions_trained_is_marked(
    place: Place,
) -> None:
    """Though it is the only one."""
    place.write({"parts/one.py": "def one():\n    return 1 / 0\n"})
    process = place.type("train", "task=toy", STUDY)
    assert (process.returncode, "--changed-code" in process.stdout) == (1, False)
    place.write({"parts/one.py": ONE, "stops": ""})
    process = place.type("train", "task=toy", STUDY)
    assert (process.returncode, "add --changed-code" in process.stdout) == (1, True)
    assert "stopped by a person" in (place.study / "base-s1" / "error.txt").read_text()
    place.write({"parts/one.py": TEN})
    assert "--changed-code" in place.refused("train", "task=toy", STUDY)
    for words in (("status", STUDY), ("plan", "task=toy", STUDY, "--changed-code")):
        assert f"sweep {STUDY} --changed-code" in place.must(*words), (
            "the next command is not refused"
        )
    place.train("base", "--changed-code")
    assert place.score("base-s1") not in (4.0, 40.0)
    assert "(parts/one.py changed)" in place.table()


def test_a_row_from_a_file_of_the_same_name_elsewhere_is_refused(
    trained: Place, another: Callable[[str], Place]
) -> None:
    second_project = another("there")
    second_project.write({"parts/one.py": TEN})
    runs = f"paths.runs={trained.folder / 'runs'}"
    assert "+ return 10.0" in second_project.refused(
        "train", "task=toy", STUDY, "row=size_2", runs, "--add"
    )


def test_another_version_of_the_task_is_not_mixed_with_the_old_rows(trained: Place) -> None:
    trained.write({"toy.py": TOY.replace('Task("toy", 1,', 'Task("toy", 2,')})
    refusal = trained.refused("train", "task=toy", STUDY, "row=size_2", "--add")
    assert "version 1" in refusal
    assert "another sweep.name" in refusal


@pytest.mark.ray
def test_a_running_sweep_goes_on_with_the_code_that_it_began_with(place: Place) -> None:
    """The worker of a trial is lost after its second step, while the file is edited: another one
    takes over."""
    place.write({"dies": TEN})
    output = place.must("sweep", "task=toy", STUDY, "sweep.rows=[base,size_2]", "sweep.seeds=[1]")
    assert (place.score("base-s1"), place.score("size_2-s1")) == (4.0, 8.0)
    assert output.count("parts/one.py changed: this sweep keeps the code it started with") == 1
    assert " changed)" not in place.table()


TYPO = TOY.replace("        trial.checkpoint(step, done)\n", "        don\n")
UNSAVED = TOY.replace("        trial.checkpoint(step, done)\n", "")
UNSCORED = TOY.replace('{"score": done}', '{"score": don}')


def test_a_typo_behind_the_first_report_is_mended_without_a_word_or_a_mark(place: Place) -> None:
    """Nothing that the old code trained is there."""
    place.write({"toy.py": TYPO})
    for row in ("base", "size_2"):
        assert place.type("train", "task=toy", STUDY, f"row={row}", "--add").returncode == 1
        assert (place.study / f"{row}-s1" / "journal.jsonl").read_text()
    assert "changed-code" not in place.must("status", STUDY)
    error = (place.study / "base-s1" / "error.txt").read_text()
    assert f'"{place.folder / "toy.py"}", line' in error, "the file that a person can edit"
    place.write({"toy.py": UNSAVED})
    for row in ("base", "size_2"):
        place.train(row)
    assert (place.score("base-s1"), place.score("size_2-s1")) == (4.0, 8.0)
    assert " changed)" not in place.table()
    assert "\u2021" not in place.table("md")
    place.write({"toy.py": TOY})
    assert "--changed-code" in place.refused("train", "task=toy", STUDY, "row=size_3", "--add")


def test_rows_that_new_code_has_only_scored_are_alike(place: Place) -> None:
    """All were trained by the old code, whose scoring failed."""
    place.write({"toy.py": UNSCORED})
    for row in ("base", "size_2"):
        assert place.type("train", "task=toy", STUDY, f"row={row}", "--add").returncode == 1
    place.write({"toy.py": TOY})
    for row in ("base", "size_2"):
        place.train(row, "--changed-code")
    assert (place.score("base-s1"), place.score("size_2-s1")) == (4.0, 8.0)
    assert " changed)" not in place.table()
    assert "\u2021" not in place.table("md")
