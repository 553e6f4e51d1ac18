"""Why a node cannot run a study's trials. This runs on the node, with the same version of our
packages as the sweep."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import source_of
from sweeps.preflight.machine import gpu_problems
from sweeps.preflight.places import checkpoint_problems
from sweeps.preflight.sent_code import from_plain
from sweeps.problems import Problem, RefusedError
from sweeps.worker.prepared import TaskData
from sweeps.worker.user_code.imports import enter_code


def problems_here(trials: dict[str, Any], seen: dict[str, bool]) -> list[dict[str, Any]]:
    """The problems of this node as plain data, which a process without our packages can read.

    They concern the place of checkpoints, CUDA for GPU trials, the task, and its data. ``seen``
    says by key which shared folders this node sees.
    """
    key, checkpoints = trials["checkpoints"]
    problems = checkpoint_problems(key, checkpoints)
    if trials["gpus"]:
        problems += gpu_problems()
    if trials["task"]:
        try:
            problems += _data_problems(trials, sees_data=seen.get("paths.data", True))
        except RefusedError as error:
            problems += error.problems
    return [asdict(problem) for problem in dict.fromkeys(problems)]


def _data_problems(trials: dict[str, Any], sees_data: bool) -> Iterator[Problem]:
    """Why this node cannot prepare data that it neither sees nor has. Raises RefusedError if the
    task is invalid."""
    code = from_plain(trials["code"])
    folder = enter_code(code, Path(trials["study"]), lasting=False) or Path(trials["folder"])
    task = source_of(trials["task"], folder).task
    if sees_data:
        return
    for data in trials["data"]:
        planned = TaskData(task, Path(data["folder"]), data["fingerprint"], data["code"])
        if task.prepare is None or not planned.folder.is_dir():
            config = Schema.of(task).config(data["config"])
            yield from task.data_problems(config, None)
