"""Whether trials of a study can run on this node, which has our packages: its task, its data, its checkpoints."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource, source_of
from sweeps.planning.task_files import root_of
from sweeps.preflight.places import checkpoint_problems
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task
from sweeps.worker.prepared import data_place


def problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[dict[str, Any]]:
    """As plain data: where checkpoints cannot be saved, a task that differs, data that cannot be prepared here."""
    found = [*checkpoint_problems(*trials["checkpoints"]), *_task_problems(trials, seen)]
    return [asdict(problem) for problem in dict.fromkeys(found)]


def _task_problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[Problem]:
    if trials["task"] is None:
        return []
    try:
        source = source_of(trials["task"], Path(trials["folder"]))
        if other := list(_other_files(source, trials["files"])):
            return other
        shared = seen.get("paths.data", True)
        return [problem for data in trials["data"] for problem in _data_problems(source.task, data, shared)]
    except RefusedError as error:
        return error.problems


def _other_files(source: TaskSource, files: dict[str, str]) -> Iterator[Problem]:
    """A problem if files of the task differ from those of the sweep, which are given by their SHA-256."""
    root = root_of(source)
    other = [name for name, digest in files.items() if root is None or _sha256(root / name) != digest]
    if other:
        found = f'is "{source.name}", whose {", ".join(other)} differ{"s" * (len(other) == 1)}'
        yield Problem("task", found, "must be the same files on every node", None, str(root))


def _sha256(file: Path) -> str | None:
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None


def _data_problems(task: Task[Any], data: dict[str, Any], shared: bool) -> list[Problem]:
    """What keeps this node from preparing the data, if it neither shares nor has it."""
    place = data_place(task, Path(data["folder"]), data["fingerprint"])
    if shared or (task.prepare is not None and place.is_dir()):
        return []
    return list(task.data_problems(Schema.of(task).config(data["config"]), None))
