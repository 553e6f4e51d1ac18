"""Prepared data of any task: made once, whole or not at all, and never another copy than the
planned one."""

import io
import json
import multiprocessing
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from composed_rows import composed_sweep
from rich.console import Console
from small_task import HEAD

from sweeps.config.schema import task_card
from sweeps.config.tasks import load_task
from sweeps.planning.plan import Plan, make_plan
from sweeps.problems import Problem, RefusedError
from sweeps.running.opening import prepare_data
from sweeps.worker.prepared import TaskData
from tracking.trial import TrialFolder

SOURCE = """
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from sweeps.task import Fingerprinted, Metric, Problem, RefusedError, Task

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Data:
    file: Annotated[str, Fingerprinted()]


@dataclass(frozen=True)
class Model:
    size: int


@dataclass(frozen=True)
class Config:
    model: Model
    data: Data


def text(config):
    return (HERE / config.data.file).read_text()


def prepare(configs, folder, told):
    told("reading", 0.5)
    with (HERE / "calls").open("a") as calls:
        calls.write(" ".join(str(config.model.size) for config in configs) + "\\n")
    (folder / "inner").mkdir()
    (folder / "inner" / "letters").write_text(text(configs[0]))
    if (HERE / "version").exists():
        (folder / "version").write_text((HERE / "version").read_text())
    if "?" in text(configs[0]):
        raise RefusedError([Problem("data.file", "has a ?", "must have letters alone")])


def data_problems(config, folder):
    if folder is None:
        return
    letters = len((folder / "inner" / "letters").read_text())
    if config.model.size < letters:
        yield Problem("model.size", f"is {config.model.size}", f"must be at least {letters}")


task = Task("letters", 1, Config, (Metric("score"),), steps=lambda config: 1, work=print,
            fingerprint=text, prepare=prepare, data_problems=data_problems)
"""
FILES = {
    "letters.py": SOURCE,
    "some": "abc",
    "others": "abcdef",
    "conf/task/letters/base.yaml": "model: {size: 9}\ndata: {file: some}\n",
    "conf/task/letters/row/small.yaml": HEAD + "row: {group: A, change: small}\nmodel: {size: 5}\n",
    "conf/task/letters/row/other.yaml": HEAD
    + "row: {group: A, change: other}\ndata: {file: others}\n",
    "conf/task/letters/row/both.yaml": HEAD
    + "row: {group: A, change: both}\nmodel: {size: 4}\ndata: {file: others}\n",
}
MADE = ["inner/letters", "prepared.json"]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


def planned(here: Path, *rows: str) -> Plan:
    selection = f"sweep.rows=[{','.join(rows)}]"
    return make_plan(
        composed_sweep(["task=letters", selection, f"paths.data={here}/data"], here), [1, 2]
    )


def prepare_all(plan: Plan) -> None:
    prepare_data(plan, Console(file=io.StringIO()))


def problems(act: Callable[[], object]) -> list[Problem]:
    with pytest.raises(RefusedError) as refused:
        act()
    return refused.value.problems


def calls(here: Path) -> list[str]:
    """The sizes of the configurations of each preparation."""
    return (here / "calls").read_text().split("\n")[:-1]


def open_here(
    here: Path, planned_as: str = "abc", prepared_as: str = "", data: str = "data"
) -> Path:
    """As a worker of base does."""
    trial = planned(here, "base").trials[0]
    return TaskData(trial.task, here / data, planned_as).open([trial.config], prepared_as)


def test_trials_with_the_same_data_share_one_preparation(here: Path) -> None:
    plan = planned(here, "base", "small", "other")
    prepare_all(plan)
    assert sorted(calls(here)) == ["9", "9 5"], "rows once, whatever their seeds"
    folders = {trial.data.folder for trial in plan.trials}
    assert {
        folder for folder in (here / "data" / "letters").iterdir() if folder.is_dir()
    } == folders
    for folder in folders:
        assert (
            sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
            == MADE
        )
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    (here / "some").unlink()
    prepare_all(plan)
    assert len(calls(here)) == 2, "what is there is only opened, even if its source changed"


def test_data_that_does_not_suit_some_rows_is_refused_with_all_problems(here: Path) -> None:
    (here / "some").write_text("abcdefg")
    plan = planned(here, "base", "small", "both")
    faults = problems(lambda: prepare_all(plan))
    assert [(problem.key, problem.found, problem.allowed) for problem in faults] == [
        ("model.size", "is 5", "must be at least 7"),
        ("model.size", "is 4", "must be at least 6"),
    ]


def test_refused_data_leaves_nothing(here: Path) -> None:
    (here / "some").write_text("a?")
    files_before = sorted(here.rglob("*"))
    (problem,) = problems(lambda: prepare_all(planned(here, "base")))
    assert (problem.key, problem.found) == ("data.file", "has a ?")
    (here / "calls").unlink()
    assert [
        path for path in sorted(here.rglob("*")) if "__pycache__" not in str(path)
    ] == files_before


def test_data_that_changed_after_it_was_planned_is_not_prepared(here: Path) -> None:
    plan = planned(here, "base")
    (here / "some").write_text("abd")
    (problem,) = problems(lambda: prepare_all(plan))
    assert problem.found == "the data of letters changed after it was planned"
    assert not (here / "data").exists()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "was changed": lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"),
    "is missing": Path.unlink,
}


@pytest.mark.parametrize(
    ("name", "fault"),
    [("inner/letters", fault) for fault in DAMAGES] + [("prepared.json", "was changed")],
)
def test_damaged_data_is_refused_with_the_name_of_its_file(
    here: Path, name: str, fault: str
) -> None:
    plan = planned(here, "base")
    prepare_all(plan)
    folder = plan.trials[0].data.folder
    DAMAGES[fault](folder / name)
    for act in (lambda: prepare_all(plan), lambda: open_here(here)):
        (problem,) = problems(act)
        assert problem.found.startswith(f"prepared data is damaged: {name} {fault}")
        assert (problem.key, problem.place) == ("paths.data", str(folder))
        assert "prepared again" in problem.allowed
    assert len(calls(here)) == 1


def test_a_node_prepares_the_planned_copy_or_names_itself(here: Path) -> None:
    prepare_all(planned(here, "base"))
    trial = planned(here, "base").trials[0]
    prepared_as = trial.data.identity()
    assert open_here(here, prepared_as=prepared_as, data="node") != trial.data.folder
    (here / "version").write_text("2")
    (problem,) = problems(lambda: open_here(here, prepared_as=prepared_as, data="newer"))
    assert problem.found == f"{socket.gethostname()} has another copy of the same data"
    assert "share that folder" in problem.allowed
    (here / "some").write_text("abd")
    (problem,) = problems(lambda: open_here(here, data="changed"))
    head = (
        f"{socket.gethostname()} has no prepared data and cannot prepare it: data: "
        "the data of letters changed"
    )
    assert problem.found.startswith(head)
    assert not (here / "changed").exists()


def test_a_trial_does_not_go_on_with_another_copy(here: Path) -> None:
    prepare_all(planned(here, "base"))
    trial = planned(here, "base").trials[0]
    folder = TrialFolder(here / "base-s1", task_card(trial.task))
    data = trial.data
    folder.path.mkdir()
    folder.provenance_path.write_text(json.dumps({"commit": "", "data_identity": data.identity()}))
    assert data.problems_for(folder, data.identity()) == []
    shutil.rmtree(data.folder)
    assert data.identity() == ""
    (here / "version").write_text("2")
    prepare_all(planned(here, "base"))
    (problem,) = data.problems_for(folder, data.identity())
    assert problem.found == "holds a different copy of the data than the one base-s1 was trained on"


def open_at_once(here: Path, ready: Any, results: Any) -> None:
    task = load_task("letters", here)
    ready.wait()
    config = planned(here, "base").trials[0].config
    results.put(str(TaskData(task, here / "data", "abc").open([config])))


def test_two_processes_at_once_prepare_once(here: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(2)
    results = context.Queue()
    processes = [
        context.Process(target=open_at_once, args=(here, ready, results)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    folders = {results.get(timeout=60) for _ in processes}
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(folders) == len(calls(here)) == 1


def test_preparing_and_checking_give_signs_of_life(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = planned(here, "base").trials[0]
    steps = list[str]()
    signs = list[None]()
    monkeypatch.setattr("sweeps.worker.prepared.give_sign_of_life", lambda: signs.append(None))
    trial.data.prepare_once([trial.config], lambda step, _: steps.append(step))
    assert steps == ["reading", "checking"]
    assert len(signs) >= 4, "each line, and each file when it is written and when it is read"
