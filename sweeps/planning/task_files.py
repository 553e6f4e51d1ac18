"""The files of a user's task, by hash: a change of them is a change of what a finished trial was trained by."""

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import Any

from sweeps.planning.load_task import OURS
from sweeps.planning.task_source import TaskSource


def task_files(source: TaskSource) -> dict[str, Any] | None:
    """Name, version and files of the task for provenance.json; None for our own tasks, which the commit covers."""
    if source.name in OURS:
        return None
    task = source.task
    return {"name": task.name, "version": task.version, "source": source.name, "files": _files(source)}


@cache
def _files(source: TaskSource) -> dict[str, str]:
    """SHA-256 of each imported file of the task's package, or of its folder for a module without a package."""
    module = sys.modules.get(source.task.schema.__module__)
    file = getattr(module, "__file__", None)
    if file is None:
        return {}
    root = Path(file).parent
    loaded = {getattr(other, "__file__", None) for other in list(sys.modules.values())}
    own = sorted(Path(path) for path in loaded if path and path.endswith(".py") and Path(path).is_relative_to(root))
    return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in own}


def changed_files(source: TaskSource, recorded: dict[str, Any]) -> list[str]:
    """The files that differ from a trial's provenance."""
    now, before = _files(source), recorded.get("task", {}).get("files", {})
    return [name for name, digest in now.items() if name in before and before[name] != digest]
