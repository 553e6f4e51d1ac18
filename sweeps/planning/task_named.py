"""The task of a command: the one it names, the recorded study's, or translation."""

from pathlib import Path

from sweeps.planning.load_task import source_of
from sweeps.planning.override import parsed
from sweeps.planning.recorded import Record
from sweeps.planning.schema import FIRST_TASK
from sweeps.planning.stored_study import known_study
from sweeps.planning.task_source import TaskSource
from sweeps.planning.yaml_files import Library
from sweeps.task import Problem, RefusedError
from tracking.study import Study

KEY = "task"


def library_of(overrides: list[str], here: Path, record: Record | None = None, trains: bool = True) -> Library:
    """The configuration files of the command's task. Raises RefusedError if it cannot be imported.

    To read a study needs no task: without ``trains``, translation's files stand in for those of a recorded task.
    """
    try:
        return Library(here, record.source if record else source_named(overrides, here))
    except RefusedError:
        if trains or any(text.startswith(f"{KEY}=") for text in overrides):
            raise
        return Library(here, source_of(FIRST_TASK, here))


def source_named(overrides: list[str], here: Path) -> TaskSource:
    """By ``task=NAME``, or by the study that ``sweep.name`` and ``paths.runs`` name. Raises RefusedError."""
    typed = {each.key: each.value for text in overrides if (each := parsed(text)) and isinstance(each.value, str)}
    if KEY in typed:
        return source_of(typed[KEY], here)
    study = _study(typed.get("paths.runs", "runs"), typed.get("sweep.name"), here)
    return source_of(FIRST_TASK, here) if study is None else source_of_study(study, here)


def source_of_study(study: Study, here: Path) -> TaskSource:
    """The task that a study has recorded. Raises RefusedError if another task has that name today."""
    source = source_of(str(study.chosen.get("options", {}).get(KEY, FIRST_TASK)), here)
    if source.task.name != study.task.name:
        found = f'is "{source.name}", which is now a task named {source.task.name}, but {study.name} is of'
        raise RefusedError([Problem(KEY, f"{found} {study.task.name}", "restore the file, or choose another study")])
    return source


def _study(runs: str, name: str | None, here: Path) -> Study | None:
    try:
        return None if name is None else known_study(here / Path(runs).expanduser() / name)
    except (RefusedError, RuntimeError):  # reported when the study is read, or as a fault of the path
        return None
