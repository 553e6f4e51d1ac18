"""The files of a user's task, by hash: a change of them is a change of what a finished trial was trained by."""

import hashlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sweeps.config.tasks import OURS, TaskSource
from sweeps.planning.task_of import source_of_study
from sweeps.task import RefusedError
from tracking.damage import unless_damaged
from tracking.study import Study
from tracking.trial import TrialFolder

PACKAGES = ("allelse", "sweeps", "tracking", "transformer")
"""Ours, which a task may lie next to."""


def task_files(source: TaskSource) -> dict[str, Any] | None:
    """Name, version and files of the task for provenance.json; None for our own tasks, which the commit covers."""
    if source.name in OURS:
        return None
    task = source.task
    return {"name": task.name, "version": task.version, "source": source.name, "files": _files(source)}


def changed_since_trained(study: Study, here: Path) -> list[str]:
    """A line for each change of the task's files under a trial of the study; none if the task cannot be imported."""
    try:
        source = source_of_study(study, here)
    except RefusedError:
        return []
    return list(changes(source, ((trial.name, study.trial_folder(trial)) for trial in study.trials)))


def changes(source: TaskSource, trials: Iterable[tuple[str, TrialFolder]]) -> Iterator[str]:
    """A line for each set of files that changed since some of the trials were trained."""
    now = {} if source.name in OURS else _files(source)
    found: dict[tuple[str, ...], list[str]] = {}
    for name, folder in trials if now else ():
        if changed := _changed(now, unless_damaged(folder.provenance, {})):
            found.setdefault(changed, []).append(name)
    for files, names in found.items():
        others, verb = (f" and {len(names) - 1} more", "were") if len(names) > 1 else ("", "was")
        them = "them" if len(names) > 1 else "it"
        since = f"{', '.join(files)} changed since {names[0]}{others} {verb} trained"
        yield f"{since}; if training changed, raise the task's version to train {them} again; otherwise do nothing"


def root_of(source: TaskSource) -> Path | None:
    """The folder of the task's package, or of its module; None if it has no file."""
    file = getattr(sys.modules.get(source.task.schema.__module__), "__file__", None)
    return Path(file).parent if file else None


def _files(source: TaskSource) -> dict[str, str]:
    """SHA-256 of each imported file of the task's package, or of its folder for a module without a package."""
    root = root_of(source)
    if root is None:
        return {}
    loaded = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    paths = sorted(Path(path) for path in loaded if path and path.endswith(".py"))
    own = [path for path in paths if path.is_relative_to(root) and not _is_installed(path, root)]
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in own}


def _is_installed(path: Path, root: Path) -> bool:
    """Whether the file below ``root`` is ours, or of a virtual environment there."""
    inner = (Path(entry) for entry in (*sys.path, sys.prefix) if entry)
    environments = (place for place in inner if place != root and place.is_relative_to(root))
    return path.relative_to(root).parts[0] in PACKAGES or any(map(path.is_relative_to, environments))


def _changed(now: dict[str, str], provenance: dict[str, Any]) -> tuple[str, ...]:
    """The files that differ from a trial's provenance."""
    task = provenance.get("task")
    before = task.get("files") if isinstance(task, dict) else None
    known = before if isinstance(before, dict) else {}
    return tuple(name for name, digest in now.items() if name in known and known[name] != digest)
