"""However a task loads its files, all trials of a study see one version of them, in every
process."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from place import STUDY, Place

from sweeps.preflight.machine import cpus

ONE_STEP = "train.steps=1"
HELPER = """
import importlib.util
import json
import multiprocessing
import pkgutil
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent
PLACE = HERE / "loaded" / "piece.py"


def by_spec(name, path=PLACE):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.one()


def in_child(queue):
    from loaded import piece

    queue.put(piece.one())


def spawned():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    value = queue.get(timeout=60)
    child.join()
    return value


def printed(*words):
    return float(subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout)


def executed(path):
    names = {}
    exec(open(path).read(), names)
    return names["one"]()


def listed():
    import loaded

    return sum(import_module(f"loaded.{module.name}").one() for module in pkgutil.iter_modules(loaded.__path__))


def from_settings():
    line = next(line for line in open("conf/piece.yaml") if line.startswith("piece:"))
    return import_module(line.split()[1]).one()
"""
WAYS = {
    "spec_from_file_location": "by_spec('piece')",
    "exec of open, from the current folder": "executed('loaded/piece.py')",
    "exec of open, beside the file": "executed(PLACE)",
    "plugins by glob": "sum(by_spec(path.stem, path) for path in (HERE / 'loaded').glob('p*.py'))",
    "import_module of a name in YAML": "from_settings()",
    "iter_modules": "listed()",
    "run_path": "runpy.run_path(str(PLACE))['one']()",
    "spawn": "spawned()",
    "a script as a child": "printed('script.py')",
    "a module as a child": "printed('-m', 'script')",
}
ALL_WAYS = """
WAYS = {ways}


def value_of(way):
    try:
        return eval(WAYS[way])
    except Exception as error:
        return repr(error)


def one():
    today = Path("{today}")
    values = {way: value_of(way) for way in WAYS}
    with (today / "values.jsonl").open("a") as file:
        file.write(json.dumps(values) + "\\n")
    (today / "loaded" / "piece.py").write_text("def one():\\n    return 10.0\\n")
    return 1.0
"""
SCRIPT = """
import os
import sys

sys.path.insert(0, os.getcwd())
from loaded import piece

if __name__ == "__main__":
    print(piece.one())
"""
LOADED = {
    "loaded/__init__.py": "",
    "loaded/piece.py": "def one():\n    return 1.0\n",
    "script.py": SCRIPT,
    "conf/piece.yaml": "piece: loaded.piece\n",
    "parts/one.py": "from loading import one\n",
}


@dataclass
class Loaded:
    """By way, what each trial has loaded: two of one sweep, and one of new code."""

    values: list[dict[str, float | str]]
    refusal: str
    table: str


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Loaded:
    """The first trial of a sweep edits the file, as a person may; then the study goes on with the
    new one."""
    project = Place(tmp_path_factory.mktemp("loaded") / "here", database)
    all_ways = ALL_WAYS.replace("{ways}", repr(WAYS)).replace("{today}", str(project.folder))
    project.write(LOADED | {"loading.py": HELPER + all_ways})
    one_by_one = f"cluster.cpus_per_worker={cpus()}"
    project.must(
        "sweep",
        "task=toy",
        STUDY,
        "sweep.rows=[base,size_2]",
        "sweep.seeds=[1]",
        ONE_STEP,
        one_by_one,
    )
    add = ("train", "task=toy", STUDY, "row=size_3", "--add")
    refusal = " ".join(
        project.type("plan", *add[1:3], "sweep.rows=[size_3]", "--add").stderr.split()
    )
    project.must(*add, "--changed-code")
    values = [
        json.loads(line) for line in (project.folder / "values.jsonl").read_text().splitlines()
    ]
    return Loaded(values, refusal, project.table())


@pytest.mark.ray
@pytest.mark.parametrize("way", WAYS)
def test_all_trials_of_a_sweep_see_one_version_and_new_code_is_new_in_every_process(
    loaded: Loaded, way: str
) -> None:
    assert [values[way] for values in loaded.values] == [1.0, 1.0, 10.0]


@pytest.mark.ray
def test_an_edit_of_a_file_that_no_import_names_is_refused_and_marked(loaded: Loaded) -> None:
    assert all(
        words in loaded.refusal for words in ("loaded/piece.py", "+ return 10.0", "--changed-code")
    )
    assert "(loaded/piece.py changed)" in loaded.table
