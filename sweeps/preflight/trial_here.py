"""Whether trials of a study can run on this node, which has our packages: its task, its data, its checkpoints."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import source_of
from sweeps.preflight.places import checkpoint_problems
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task
from sweeps.worker.prepared import data_place
from sweeps.worker.recorded_code import use_code
from tracking.code import Code


def problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[dict[str, Any]]:
    """As plain data: where checkpoints cannot be saved, a task that differs, data that cannot be prepared here."""
    found = [*checkpoint_problems(*trials["checkpoints"]), *_task_problems(trials, seen)]
    return [asdict(problem) for problem in dict.fromkeys(found)]


def _task_problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[Problem]:
    if trials["task"] is None:
        return []
    code = trials["code"] and Code(**trials["code"])
    try:
        use_code(code)
        source = source_of(trials["task"], Path(trials["folder"]))
        shared = seen.get("paths.data", True)
        return [problem for data in trials["data"] for problem in _data_problems(source.task, data, shared)]
    except RefusedError as error:
        return error.problems


def _data_problems(task: Task[Any], data: dict[str, Any], shared: bool) -> list[Problem]:
    """What keeps this node from preparing the data, if it neither shares nor has it."""
    place = data_place(task, Path(data["folder"]), data["fingerprint"])
    if shared or (task.prepare is not None and place.is_dir()):
        return []
    return list(task.data_problems(Schema.of(task).config(data["config"]), None))
