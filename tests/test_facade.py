"""The package ``allelse``: the names that a task imports, and ``load``; quick, and hidden by no
file of a user."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_task import write_task
from studies import allelse
from typed import refusal

import allelse as facade
from sweeps import task
from sweeps.config.task_faults import OUTSIDE_PACKAGES

ROOT = Path(facade.__file__).parents[1]
PRINTS_LOADED = (
    "import sys; before = set(sys.modules); import allelse; print(*{*sys.modules} - before)"
)


def test_every_name_is_that_of_the_task_interface() -> None:
    names = {name for name in vars(facade) if name[0].isupper() and name != "TYPE_CHECKING"}
    assert {
        "Task",
        "Metric",
        "Trial",
        "Trained",
        "Range",
        "Symbol",
        "Divided",
        "Scores",
        "Observes",
        "Seed",
    } <= names
    assert all(getattr(facade, name) is getattr(task, name) for name in names)


def test_its_import_loads_python_and_the_task_interface_alone() -> None:
    process = subprocess.run(
        [sys.executable, "-c", PRINTS_LOADED], capture_output=True, text=True, check=True
    )
    outside = {name.partition(".")[0] for name in process.stdout.split()} - sys.stdlib_module_names
    assert outside == {"allelse", "sweeps", "tracking"}


@pytest.mark.parametrize("name", ["allelse.py", "sweeps.py", "tracking.py"])
def test_a_file_that_hides_a_package_of_ours_is_refused_by_name(name: str, tmp_path: Path) -> None:
    folder = write_task(tmp_path, {}, {name: "raise ImportError\n"})
    message = refusal(folder, "plan", "task=small")
    assert f"is next to {name}, which hides a package of allelse" in message
    assert sorted(path.name for path in folder.iterdir()) == sorted(["conf", "small.py", name])


@pytest.mark.parametrize("name", ["ray.py", "mlflow.py", "yaml/__init__.py"])
def test_a_file_that_hides_a_package_of_others_is_refused_by_name(
    name: str, tmp_path: Path
) -> None:
    folder = write_task(tmp_path, {}, {name: "raise ImportError\n"})
    message = refusal(folder, "plan", "task=small")
    assert f"is next to {name}, which hides a package that allelse imports" in message


def test_a_folder_without_a_module_hides_nothing(tmp_path: Path) -> None:
    folder = write_task(tmp_path, {}, {"mlflow/notes.txt": ""})
    assert allelse("plan", "task=small", cwd=folder).returncode == 0


FRAMEWORKS = {"lightning", "transformers"}
"""A callback imports its framework when it is made, and the user's code has imported it before."""


def test_every_package_of_others_that_the_platform_imports_is_known() -> None:
    ours = {"allelse", "sweeps", "tracking", "transformer"}
    imported = {
        name for package in ("sweeps", "tracking", "allelse") for name in imports_of(ROOT / package)
    }
    assert imported - ours - sys.stdlib_module_names - {"_typeshed"} <= {
        *OUTSIDE_PACKAGES,
        *FRAMEWORKS,
    }


def imports_of(folder: Path) -> set[str]:
    names = set[str]()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(str(node.module).partition(".")[0])
    return names


def test_a_transformer_py_of_the_user_serves_his_task(tmp_path: Path) -> None:
    head = "\n\n@dataclass(frozen=True)\nclass Model"
    folder = write_task(
        tmp_path, {head: f"\nimport transformer\n{head}"}, {"transformer.py": "WIDTH = 3\n"}
    )
    outcome = allelse("train", "task=small", "tracking=off", cwd=folder)
    assert outcome.returncode == 0, outcome.stderr
    (code,) = (folder / "runs/small-full/code").glob("*/code.json")
    assert {"small.py", "transformer.py"} <= set(json.loads(code.read_text())["files"])
