"""A study of the small task with a fault in its steps, and what an undisturbed trial of it
gives."""

import json
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

from allelse_in_folder import plan
from leftovers import check_no_locks, wait_for_end
from saved_state import saved_state
from small_task import HEAD as PACKAGE
from small_task import write_task
from studies import lines

from sweeps.processes.events import Event, Finished
from sweeps.running.recording.recorder import Recorder
from sweeps.worker.attempt import Driver

HEAD = "\nfrom dataclasses"
END = "work=work)"
START = "    total = trial.saved.state if trial.saved else 0.0\n"
SUM = "        total += trial.config.train.rate * trial.seed\n"
SAVE = "trial.checkpoint(step, total)"
NOISY = """\
    parts = trial.saved.state if trial.saved else dict.fromkeys(("W1", "b1", "W2", "b2"), 0.0)
    total = sum(parts.values())
"""
"""The state is a dict, and each step draws noise in its order: a resume that changes that computes
other numbers."""
MANIFESTS = "*/a*/step-*/manifest.json"
FUNCTIONS = """
import os, random, signal, sys, threading, time
from pathlib import Path

HERE = Path("{here}")  # not the study's copy

def first(name):
    # whether no worker called it with this name before
    try:
        (HERE / ("was-" + name)).touch(exist_ok=False)
        return True
    except FileExistsError:
        return False

def train_noisily(parts, trial, step):
    chance = random.Random(1000 * trial.seed + step)
    for name in parts:
        parts[name] += trial.config.train.rate * chance.random()
    return sum(parts.values())

def wait_for_leave(trial, step):
    # until train_to allows the step; asking whether to stop is a sign of life
    leave = HERE / "leave"
    while leave.exists() and step > int(leave.read_text()) and not trial.stopping(alone=True):
        time.sleep(0.05)
"""
"""What the planted code of a task can use."""


def write_paced_task(folder: Path, functions: str = "", arguments: str = "") -> Path:
    """Its trials go on to the step that ``train_to`` allows, or to their end. ``arguments``: those
    of the task."""
    return write_faulty_task(folder, "wait_for_leave(trial, step)", functions, arguments=arguments)


def write_faulty_task(
    folder: Path,
    each_step: str,
    functions: str = "",
    files: Mapping[str, str] | None = None,
    arguments: str = "",
) -> Path:
    """``each_step`` is a statement at the start of a step; it may call ``functions`` and
    FUNCTIONS."""
    shared = FUNCTIONS.replace("{here}", str(folder))
    planted = {
        HEAD: f"{shared}{functions}{HEAD}",
        START: NOISY,
        SUM: f"        {each_step}\n        total = train_noisily(parts, trial, step)\n",
        SAVE: "trial.checkpoint(step, parts)",
        END: f"work=work, {arguments})",
    }
    return write_task(folder, planted, dict(files or {}))


def rows_of_sizes(sizes: Mapping[str, int]) -> dict[str, str]:
    """The files of rows that differ in a size, by which planted code knows them. It computes
    nothing."""
    return {
        f"conf/task/small/row/{name}.yaml": (
            f"{PACKAGE}row: {{group: A, change: {name}}}\nmodel: {{size: {size}}}\n"
        )
        for name, size in sizes.items()
    }


def train_to(step: int, folder: Path) -> None:
    """Let the trials of a paced task in ``folder`` go on to this step, and no further."""
    partial_file = folder / "leave.part"
    partial_file.write_text(f"{step}")
    partial_file.replace(folder / "leave")


def undisturbed(cwd: Path, words: Sequence[str], row: str, folder: Path) -> Finished:
    """The end of the same trial, run in this process with its checkpoints in ``folder``."""
    events: list[Event] = []
    with chdir(cwd):
        (planned,) = plan(cwd, *words, f"sweep.rows=[{row}]").trials
        assignment = replace(Recorder(planned).assignment(), checkpoints=str(folder), evaluated={})
        driver = Driver(assignment, events.append)
        driver.newest()
        driver.work(0, 1, "", lambda: False)
    finished = events[-1]
    assert isinstance(finished, Finished)
    return finished


def check_as_undisturbed(
    cwd: Path, words: Sequence[str], steps: int, alone: Path, checkpoints: Path | None = None
) -> None:
    """The study ``s`` has base alone: the bits of an undisturbed trial, each step once, and no
    process or lock left.

    ``alone``: an empty place for the checkpoints of the undisturbed one.
    """
    trial = cwd / "runs" / "s" / "base-s1"
    wait_for_end(cwd)
    check_no_locks(trial.parent)
    finished = undisturbed(cwd, words, "base", alone)
    assert json.loads((trial / "result.json").read_text())["scores"] == finished.scores
    assert newest_state(checkpoints or trial / "checkpoints") == newest_state(alone)
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, steps + 1, 2))
    assert reasons(trial)[-1] == "finished"


def newest_state(checkpoints: Path) -> tuple[int, Any]:
    """Step and state of the newest checkpoint of all attempts."""
    folders = {
        int(path.parent.name.removeprefix("step-")): path.parent
        for path in checkpoints.glob(MANIFESTS)
    }
    return max(folders), saved_state(folders[max(folders)])


def reasons(trial: Path) -> list[str]:
    """Why its attempts ended."""
    return [line["reason"] for line in lines(trial / "attempts.jsonl") if line.get("end")]
