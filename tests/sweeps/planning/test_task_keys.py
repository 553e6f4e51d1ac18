"""What decides the trial key of a task, and what does not; and the folder that a task is imported
from."""

import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from allelse_in_folder import plan
from small_task import BASE, write_task

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task

FILE = "conf/task/small/base.yaml"
ADDED = "    rate: Annotated[float, Range(0, above=True)]\n"
CUT = "    cut: Annotated[float, Scores()]\n"
FINGERPRINT = {"work=work": "work=work, fingerprint=lambda config: 'f'"}


def key(folder: Path, *words: str, task: str = "small", **changes: Any) -> str:
    """The key of base with seed 1."""
    write_task(folder, **changes)
    return plan(folder, f"task={task}", "sweep.rows=[base]", *words).trials[0].trial.key


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    return key(tmp_path_factory.mktemp("before"))


# what tests/record/test_keys.py does not list
DECIDES: list[dict[str, Any]] = [
    {"replaced": {'"small", 1': '"small", 2'}},
    {"replaced": {'Task("small"': 'Task("other"'}, "files": {"conf/task/other/base.yaml": BASE}},
    {"replaced": FINGERPRINT},
    {"replaced": {CUT: f"{CUT}    more: int = 1\n"}},
    {
        "replaced": {ADDED: f"{ADDED}    more: Annotated[int, Neutral(1)]\n"},
        "files": {FILE: f"{BASE}  more: 2\n"},
    },
]
DOES_NOT: list[dict[str, Any]] = [
    {"replaced": {ADDED: f"{ADDED}    more: Annotated[int, Neutral(1)]\n"}},
    {
        "replaced": {ADDED: f"{ADDED}    more: Annotated[int, Neutral(1)]\n"},
        "files": {FILE: f"{BASE}  more: 1\n"},
    },
    {"replaced": {'Metric("score")': 'Metric("score", unit="points")'}},
]


@pytest.mark.parametrize("case", range(len(DECIDES)))
def test_what_decides_the_key(tmp_path: Path, before: str, case: int) -> None:
    assert key(tmp_path / "now", **DECIDES[case]) != before


@pytest.mark.parametrize("case", range(len(DOES_NOT)))
def test_what_does_not(tmp_path: Path, before: str, case: int) -> None:
    assert key(tmp_path / "now", **DOES_NOT[case]) == before


def test_the_seed_decides_and_the_place_of_the_task_does_not(tmp_path: Path, before: str) -> None:
    assert key(tmp_path / "seed", "sweep.seeds=[2]") != before
    package = write_task(tmp_path / "package") / "pack"
    package.mkdir()
    shutil.copy(tmp_path / "package" / "small.py", package / "other.py")
    (package / "__init__.py").touch()
    assert key(tmp_path / "package", task="pack.other:task") == before
    assert key(tmp_path / "package", task="small:task") == before


def test_modules_of_one_name_in_two_folders_are_two_tasks(tmp_path: Path) -> None:
    helped = {
        "\n\n@dataclass(frozen=True)\nclass Model": (
            "\nimport helper\n\n\n@dataclass(frozen=True)\nclass Model"
        )
    }
    places = [tmp_path / "one", tmp_path / "two"]
    for version, folder in enumerate(places, 1):
        write_task(
            folder,
            {**helped, '"small", 1': '"small", helper.VERSION'},
            {"helper.py": f"VERSION = {version}\n"},
        )
    assert [load_task("small", folder).version for folder in places] == [1, 2]
    for folder in (*places, *places):
        task = load_task("small", folder)
        config = Schema.of(task).config(
            {
                "model": {"size": 1, "kind": "round"},
                "train": {"steps": 1, "rate": 1, "every": 1, "cut": 1},
            }
        )
        assert pickle.loads(pickle.dumps(config)) == config, (
            "a pickle names the module of the last loaded folder"
        )
        assert sys.modules["helper"].__file__ == str(folder / "helper.py")
        assert [entry for entry in sys.path if entry in map(str, places)] == [str(folder)]
