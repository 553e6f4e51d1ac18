"""A node looks at the task's files: they must be those of the sweep."""

from pathlib import Path
from typing import Any

from small_task import write_task

from sweeps.planning.load_task import source_of
from sweeps.planning.task_files import task_files
from sweeps.preflight.trial_here import problems


def found(folder: Path, files: dict[str, str]) -> list[dict[str, Any]]:
    """What keeps this node from running trials of the small task with these files."""
    place = ("paths.runs", str(folder / "runs"))
    return problems({"checkpoints": place, "task": "small", "folder": str(folder), "files": files, "data": []}, {})


def test_files_of_the_task_that_differ_or_are_missing_are_named(tmp_path: Path) -> None:
    folder = write_task(tmp_path.resolve())
    files = (task_files(source_of("small", folder)) or {})["files"]
    assert list(files) == ["small.py"]
    assert found(folder, files) == []
    (problem,) = found(folder, {**files, "small.py": "0" * 64, "helper.py": "1" * 64})
    assert problem["found"].startswith('is "small", whose small.py, helper.py differ')
    assert problem["allowed"] == "must be the same files on every node"
    assert (problem["key"], problem["place"]) == ("task", str(folder))
