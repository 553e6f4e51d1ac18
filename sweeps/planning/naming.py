"""What a command names: its task, its study, and the overrides of the next command on that."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sweeps.config.hydra import Library, parsed, quoted
from sweeps.config.tasks import DEFAULT_TASK, TaskSource, source_of, usual_task
from sweeps.planning.composition import Record
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, damaged
from tracking.files import DamagedFileError
from tracking.study import Study, StudyMissing, read_study, study_folders
from tracking.words import shell_line

PLACES = ("paths.", "tracking")
STUDY_NAMES = ("task=", "data=", "scale=", "sweep=", "sweep.name=")
NAMING = (*STUDY_NAMES, *PLACES)
FREE = (*PLACES, "cluster", "sweep.max_failures=", "sweep.stall_minutes=", "data.mirror=")
"""The settings of a study that may change at any time, besides those that only observe its training."""
DECODING = ("decode=",)
"""The settings that score trials again, besides those keys of the task that only score."""
SELECTING = (
    "sweep=",
    "sweep.rows=",
    "sweep.vary",
    "sweep.grid",
    "sweep.seeds=",
    "sweep.base_seeds=",
    "row=",
    "train.seed=",
)


def naming(overrides: list[str] | None) -> list[str]:
    """The overrides that identify a study and its location."""
    return chosen(overrides, NAMING)


def names_study(overrides: list[str] | None) -> bool:
    """Whether the overrides name a study, and not only its location."""
    return bool(chosen(overrides, STUDY_NAMES))


def chosen(overrides: list[str] | None, *kinds: tuple[str, ...]) -> list[str]:
    """The overrides of these kinds, in the order typed."""
    starts = tuple(start for kind in kinds for start in kind)
    return [override for override in overrides or [] if override.startswith(starts)]


def program() -> str:
    """``allelse``, or its relative path where its virtual environment is not on the PATH."""
    typed = Path(sys.argv[0])
    unreachable = typed.name == "allelse" and shutil.which("allelse") is None
    return os.path.relpath(typed) if unreachable else "allelse"


def command(verb: str, *words: str) -> str:
    """One of our commands as it can be typed here."""
    return shell_line([program(), verb, *words])


def by_name(study: Path) -> str:
    """The override that names a recorded study."""
    return f"sweep.name={quoted(study.name)}"


def placed(study: Path) -> list[str]:
    """The override for the folder of the study, unless that is where a command looks by itself."""
    runs = study.parent
    return [] if runs == (Path.cwd() / "runs").resolve() else [f"paths.runs={quoted(str(runs))}"]


def other_study(study: Path) -> str:
    """What to type if a recorded study stands in the way."""
    return f"type `{command('rm', study.name, *placed(study))}`, or choose another sweep.name"


def some_of(names: Sequence[str], most: int = 30) -> str:
    """The names for a refusal, which a large study would make too long."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def must_finish(study: Path) -> str:
    """What is allowed where a trial of the study has no result yet, and what to type."""
    status, sweep = (command(verb, by_name(study), *placed(study)) for verb in ("status", "sweep"))
    return f"must be finished; `{status}` shows where each trial stands, and `{sweep}` resumes it"


def looking(study: Path, overrides: list[str] | None) -> list[str]:
    """The overrides for a verb that reads the study: its name, unless it is the only one, and its places."""
    name = [by_name(study)] if len(study_folders(study.parent)) > 1 else []
    return [*name, *chosen(overrides, PLACES)]


def known_study(folder: Path) -> Study | None:
    """The study on disk, if there is one. Raises RefusedError if its file is damaged."""
    try:
        return read_study(folder)
    except StudyMissing:
        return None
    except DamagedFileError as error:
        raise RefusedError([damaged(error)]) from None


def study_names(runs: Path) -> list[str]:
    """The studies recorded in this folder."""
    return [folder.name for folder in study_folders(runs)]


def studies_there(runs: Path) -> str:
    """A hint for a person who named a study that does not exist."""
    names = study_names(runs)
    return f"studies there: {', '.join(names)}" if names else "`allelse sweep` creates one"


TASK_KEY = "task"


def library_of(overrides: list[str], here: Path, record: Record | None = None, trains: bool = True) -> Library:
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
