"""The files of a task in the provenance of its trials, and what is said when they change."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from small_task import BASE, write_task
from typed import refusal, typed

KIND = '    kind: Literal["round", "square"]\n'
SAID = "small.py changed since base-s1 was trained; if training changed, raise the task's version to train it again;"
HELPED = {"\n\n@dataclass(frozen=True)\nclass Model": "\nimport helper\n\n\n@dataclass(frozen=True)\nclass Model"}


@pytest.fixture(scope="module")
def trained(furnish: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished trial of a task in two files, next to an environment's package that it imports."""
    place = tmp_path_factory.mktemp("trained").resolve()
    installed = place / "env" / "lib"
    installed.mkdir(parents=True)
    (installed / "installed.py").write_text("")
    helper = f"import sys\nsys.path.append({str(installed)!r})\nimport installed\nsys.path.pop()\n"
    folder = write_task(furnish(place), HELPED, {"helper.py": helper})
    sys.path.append(str(installed))
    try:
        done = typed(folder, "train", "task=small")
    finally:
        sys.path.remove(str(installed))
    assert done.exit_code == 0, done.output
    return folder


def test_a_change_under_a_finished_trial_is_told(trained: Path) -> None:
    task = json.loads((trained / "runs/small-full/base-s1/provenance.json").read_text())["task"]
    assert sorted(task["files"]) == ["helper.py", "small.py"]
    reading = (["status"], ["status", "--json"], ["table", "--format", "csv"], ["table"])
    for verb, *options in (*reading, ["plan"]):
        assert "changed" not in typed(trained, verb, "sweep.name=small-full", *options).output
    with (trained / "small.py").open("a") as file:
        file.write("# another comment\n")
    for verb, *options in reading:
        done = typed(trained, verb, "sweep.name=small-full", *options)
        assert done.exit_code == 0
        assert SAID in " ".join(done.stderr.split())
        assert "changed since" not in done.stdout
    assert SAID in " ".join(typed(trained, "plan", "sweep.name=small-full").stdout.split())
    with (trained / "helper.py").open("a") as file:
        file.write("# another comment\n")
    assert "helper.py, small.py changed since" in typed(trained, "status", "sweep.name=small-full").stderr


def test_a_study_is_read_where_its_task_is_not(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere").resolve()
    shutil.copytree(trained / "runs", elsewhere / "runs")
    for words in ([], ["sweep.name=small-full"]):
        done = typed(elsewhere, "table", *words, "--format", "json")
        assert (done.exit_code, json.loads(done.stdout)[0]["score"]) == (0, 2.0), done.output
        assert "finished" in typed(elsewhere, "status", *words).stdout
    assert 'is "small", but there is no module small' in refusal(elsewhere, "sweep", "sweep.name=small-full")


def test_keys_of_a_former_schema_name_the_study_that_recorded_them(
    furnish: Callable[[Path], Path], tmp_path: Path
) -> None:
    before = write_task(furnish(tmp_path / "before"))
    assert typed(before, "train", "task=small", "row=square").exit_code == 0
    base = {"conf/task/small/base.yaml": BASE.replace(", kind: round", "")}
    now = write_task(tmp_path / "now", {KIND: ""}, base)
    (now / "conf/task/small/row/square.yaml").unlink()
    shutil.copytree(before / "runs", now / "runs")
    said = refusal(now, "plan", "task=small")
    assert "model.kind (runs/small-full/study.json) is not a key keys under model are size; recorded by" in said
    assert "type `allelse rm small-full`, or choose another sweep.name" in said
