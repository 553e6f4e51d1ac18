"""The task of a command: the one it names, the recorded study's, or the usual one of the folder."""

from dataclasses import replace
from pathlib import Path

from sweeps.config.hydra import Library, parsed
from sweeps.config.tasks import DEFAULT_TASK, TaskSource, source_of, usual_task
from sweeps.planning.composition import StudyRecord
from sweeps.planning.naming import known_study
from sweeps.schema import COMMAND_LINE, Problem, RefusedError
from tracking.study import Study

TASK_KEY = "task"


def library_of(overrides: list[str], here: Path, record: StudyRecord | None = None, trains: bool = True) -> Library:
    """The configuration of the command's task. Raises RefusedError if it cannot be imported.

    To read a study needs no task: without ``trains``, the default task's files stand in for those of a recorded task.
    """
    try:
        return Library(record.source if record else source_named(overrides, here), here)
    except RefusedError:
        if trains or any(text.startswith(f"{TASK_KEY}=") for text in overrides):
            raise
        return Library(source_of(DEFAULT_TASK, here), here)


def source_named(overrides: list[str], here: Path) -> TaskSource:
    """By ``task=NAME``, or by the study that ``sweep.name`` and ``paths.runs`` name. Raises RefusedError."""
    starts = (TASK_KEY, "paths.runs=", "sweep.name=")
    typed = dict(pair for text in overrides if text.startswith(starts) for pair in _named(text))
    if TASK_KEY in typed:
        try:
            return source_of(typed[TASK_KEY], here)
        except RefusedError as error:
            raise RefusedError(replace(each, place=each.place or COMMAND_LINE) for each in error.problems) from None
    study = _study(typed.get("paths.runs", "runs"), typed.get("sweep.name"), here)
    return source_of(usual_task(here), here) if study is None else source_of_study(study, here)


def source_of_study(study: Study, here: Path) -> TaskSource:
    """The task that a study has recorded. Raises RefusedError if another task has that name today."""
    source = source_of(str(study.chosen.get("options", {}).get(TASK_KEY, study.task.name)), here)
    if source.task.name != study.task.name:
        found = f'is "{source.name}", now a task named {source.task.name}; {study.name} was made with {study.task.name}'
        raise RefusedError([Problem(TASK_KEY, found, "restore the file, or choose another study")])
    return source


def _named(text: str) -> list[tuple[str, str]]:
    """The key and the value of an override; a number may be a name too."""
    override = parsed(text)
    if override is None or override.is_sweep_override():
        return []
    value = override.value()
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return []
    return [(override.key_or_group, value if isinstance(value, str) else text.partition("=")[2].strip())]


def _study(runs: str, name: str | None, here: Path) -> Study | None:
    try:
        return None if name is None else known_study(here / Path(runs).expanduser() / name)
    except (RefusedError, RuntimeError):  # reported when the study is read, or as a fault of the path
        return None
