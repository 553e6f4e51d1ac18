"""The folder in which trials run: which modules are the user's, and what becomes of files beside
them."""

import importlib
import importlib.machinery
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sweeps.worker.user_code.folder import ready_code
from sweeps.worker.user_code.imports import enter_code, running_code
from tracking.code import Code, code_place
from tracking.study import STUDY_FILE

MODULE = "own_module"


def code_in(folder: Path, content: bytes = b"value = 'recorded'\n") -> Code:
    return Code({f"{MODULE}.py": content}, {"": str(folder)})


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "runs" / "s"
    folder.mkdir(parents=True)
    (folder / STUDY_FILE).write_text("{}")
    return folder


@pytest.fixture
def project(study: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, whose module has been edited since it was recorded."""
    folder = study.parents[1]
    (folder / f"{MODULE}.py").write_text("value = 'edited'\n")
    (folder / "data.txt").write_text("data")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return folder


def test_what_a_process_imports_now_is_what_was_recorded_and_later_what_is_there(
    project: Path, study: Path
) -> None:
    assert importlib.import_module(MODULE).value == "edited"
    here = Path.cwd()
    with running_code(code_in(project), study) as folder:
        assert importlib.import_module(MODULE).value == "recorded"
        assert Path.cwd() == folder
        assert Path("data.txt").read_text() == "data"
        assert not (Path.cwd() / "runs").exists(), "a copy that follows links would never end"
    assert importlib.import_module(MODULE).value == "edited"
    assert Path.cwd() == here


@pytest.mark.parametrize("root", ["/", str(Path(sys.base_prefix).parent), sys.base_prefix])
def test_python_below_the_folder_of_a_task_is_not_the_users(root: str, study: Path) -> None:
    modules_before = dict(sys.modules)
    with running_code(Code({"no_such_module.py": b""}, {"": root}), study):
        lost_modules = modules_before.keys() - sys.modules.keys()
        importlib.import_module("wsgiref.headers")
    assert not {name for name in lost_modules if name.partition(".")[0] in sys.stdlib_module_names}


def test_a_compiled_module_is_not_imported_twice(
    project: Path, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("compiled")
    module.__file__ = str(project / "compiled.so")
    module.__loader__ = importlib.machinery.ExtensionFileLoader("compiled", module.__file__)
    monkeypatch.setitem(sys.modules, "compiled", module)
    with running_code(code_in(project), study):
        assert sys.modules["compiled"] is module


def test_what_a_task_writes_beside_its_files_stays_in_the_study(project: Path, study: Path) -> None:
    code = code_in(project)
    ready_code(code, study)
    with running_code(code, study):
        Path("cache.txt").write_text("one")
    ready_code(code, study)
    assert not (project / "cache.txt").exists()
    with running_code(code, study):
        assert Path("cache.txt").read_text() == "one"


def test_a_file_that_a_task_replaces_is_the_users_again_in_the_next_sweep(
    project: Path, study: Path
) -> None:
    code = code_in(project)
    ready_code(code, study)
    with running_code(code, study):
        Path("data.txt").rename("data.1.txt")
        Path("data.txt").write_text("newer")
    ready_code(code, study)
    assert (project / "data.txt").read_text() == "data"
    with running_code(code, study):
        assert Path("data.txt").read_text() == "data"


def test_what_is_gone_from_the_users_folder_leaves_no_link(project: Path, study: Path) -> None:
    code = code_in(project)
    ready_code(code, study)
    (project / "data.txt").unlink()
    ready_code(code, study)
    with running_code(code, study):
        assert not os.path.lexists("data.txt")


def test_a_copy_of_a_study_reads_todays_files_and_a_changed_file_is_replaced(
    project: Path, study: Path
) -> None:
    code = code_in(project)
    (project / "stops").touch()
    with running_code(code, study):
        (project / "stops").unlink()
    copy = study.with_name("copy")
    shutil.copytree(study, copy)  # follows links
    (project / "data.txt").write_text("other data")
    os.utime(project / "data.txt", (2_000_000_000, 2_000_000_000))
    ready_code(code, copy)
    with running_code(code, copy):
        assert Path("data.txt").read_text() == "other data"
    (recorded,) = code_place(copy, code.digest).rglob(f"{MODULE}.py")
    recorded.chmod(0o644)
    recorded.write_bytes(b"value = 'damaged'\n")
    with running_code(code, copy):
        assert importlib.import_module(MODULE).value == "recorded"


def test_a_study_that_cannot_be_reached_is_run_from_a_folder_of_this_process(
    project: Path, tmp_path: Path
) -> None:
    """As on a node that does not share it."""
    with running_code(code_in(project), tmp_path / "elsewhere" / "s"):
        assert importlib.import_module(MODULE).value == "recorded"
        assert Path("data.txt").read_text() == "data"
    assert not (tmp_path / "elsewhere").exists()


def test_our_own_task_runs_where_it_was_started(study: Path) -> None:
    here = Path.cwd()
    assert enter_code(None, study) is None
    assert Path.cwd() == here
