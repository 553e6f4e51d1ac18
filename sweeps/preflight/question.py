"""What every node of a cluster is asked, the files that it should see, and whether trials can run there."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.settings import Paths, Settings
from sweeps.config.tasks import source_of
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.preflight.node_facts import packages
from sweeps.preflight.places import checkpoint_problems, local, nearest_existing
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task
from sweeps.worker.prepared import data_place
from sweeps.worker.recorded_code import use_code
from tracking.code import Code

BYTES = "latin-1"
"""An encoding in which each byte is a character."""
Question = dict[str, Any]
"""Plain data, which a node can read that lacks our packages."""


@contextmanager
def question(shared: Settings, plan: Plan | None) -> Iterator[Question | None]:
    """Within it, the named files exist: one in each shared folder, or in the one in which it would be created.

    None if this machine alone runs the study.
    """
    cluster = shared.cluster
    if cluster.address is None:
        yield None
        return
    with ExitStack() as stack:
        files: dict[str, str] = {}
        for key, folder in shared_folders(shared.paths).items():
            with suppress(OSError):  # a folder that cannot be written to is refused as such
                place = nearest_existing(folder)
                files[key] = stack.enter_context(NamedTemporaryFile(prefix=".allelse-", dir=place)).name
        yield {
            "worker": {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker},
            "digest": packages()["digest"],
            "files": files,
            "trials": _trials(shared, plan),
        }


def checkpoint_place(paths: Paths) -> tuple[str, str]:
    """The key that sets where checkpoints go, and its value."""
    return ("paths.runs", paths.runs) if paths.checkpoints is None else ("paths.checkpoints", paths.checkpoints)


def shared_folders(paths: Paths) -> dict[str, Path]:
    """The local folders that workers use, by key. The sweep's process alone writes the rest of ``paths.runs``."""
    key, place = checkpoint_place(paths)
    folders = {key: local(place), "paths.data": Path(paths.data)}
    return {key: folder for key, folder in folders.items() if folder is not None}


def _trials(shared: Settings, plan: Plan | None) -> dict[str, Any]:
    """For ``problems`` there: task, its files and data. Without a plan, the task itself may be wrong."""
    if plan is None:
        return {"checkpoints": checkpoint_place(shared.paths), "task": None}
    source = shared.source
    data = {planned.fingerprint: _data(planned) for planned in plan.pending}
    return {
        "checkpoints": checkpoint_place(shared.paths),
        "task": source.name,
        "folder": source.folder,
        "code": plan.code and _plain(plan.code),
        "data": list(data.values()),
    }


def _plain(code: Code) -> dict[str, Any]:
    """With each byte as a character, for JSON."""
    return {"files": {name: content.decode(BYTES) for name, content in code.files.items()}, "roots": dict(code.roots)}


def _code(plain: dict[str, Any]) -> Code:
    return Code({name: text.encode(BYTES) for name, text in plain["files"].items()}, plain["roots"])


def _data(planned: PlannedTrial) -> dict[str, Any]:
    settings = planned.settings
    return {
        "config": asdict(settings.trial),
        "folder": settings.paths.data,
        "fingerprint": planned.fingerprint,
    }


def problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[dict[str, Any]]:
    """As plain data: where checkpoints cannot be saved, a task that differs, data that cannot be prepared here."""
    found = [*checkpoint_problems(*trials["checkpoints"]), *_task_problems(trials, seen)]
    return [asdict(problem) for problem in dict.fromkeys(found)]


def _task_problems(trials: dict[str, Any], seen: dict[str, bool]) -> list[Problem]:
    if trials["task"] is None:
        return []
    try:
        use_code(_code(trials["code"]) if trials["code"] else None)
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
