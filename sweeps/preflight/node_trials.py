"""What keeps a node from running a study's trials: asked on that node, where our packages are those of the sweep."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import source_of
from sweeps.preflight.machine import gpu_problems
from sweeps.preflight.places import checkpoint_problems
from sweeps.schema import Problem, RefusedError
from sweeps.worker.code_imports import enter_code
from sweeps.worker.prepared import data_place
from tracking.code import Code

BYTES = "latin-1"
"""An encoding in which each byte is a character."""


def problems_here(trials: dict[str, Any], seen: dict[str, bool]) -> list[dict[str, Any]]:
    """As plain data: where checkpoints cannot be saved, no CUDA for GPU trials, a task that differs, data that cannot
    be prepared here."""
    found = checkpoint_problems(*trials["checkpoints"])
    found += gpu_problems() if trials["gpus"] else []
    try:
        found += _data_problems(trials, seen) if trials["task"] else []
    except RefusedError as error:
        found += error.problems
    return [asdict(problem) for problem in dict.fromkeys(found)]


def _data_problems(trials: dict[str, Any], seen: dict[str, bool]) -> Iterator[Problem]:
    """What keeps this node from preparing the data, if it neither shares nor has it. Raises RefusedError."""
    code = trials["code"]
    code = code and Code({name: text.encode(BYTES) for name, text in code["files"].items()}, code["roots"])
    folder = enter_code(code, Path(trials["study"]), lasting=False) or Path(trials["folder"])
    task = source_of(trials["task"], folder).task
    for data in trials["data"] if not seen.get("paths.data", True) else ():
        place = data_place(task, Path(data["folder"]), data["fingerprint"], data["code"])
        if task.prepare is None or not place.is_dir():
            yield from task.data_problems(Schema.of(task).config(data["config"]), None)
