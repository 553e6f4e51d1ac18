"""Which task a command line means: that of `task=NAME`, or of the study that it names."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from sweeps.config.hydra.typed_override import parsed
from sweeps.config.library import Library
from sweeps.config.settings import at_home
from sweeps.config.tasks import DEFAULT_TASK, TaskSource, source_of, usual_task
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.study_overrides import by_name
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, refusal
from tracking.observed.record import is_observed
from tracking.study import Study

TASK_KEY = "task"
NAMES_TASK = (f"{TASK_KEY}=", "paths.runs=", "sweep.name=")
"""How the overrides begin that decide the task."""
SHARED_GROUPS = ("cluster.", "sweep.", "tracking.", "paths.")
"""How the keys begin that every task has."""


def library_of(overrides: list[str], here: Path, trains: bool = True) -> Library:
    """The configuration of the command's task. Raises RefusedError if it cannot be imported.

    To read a study needs no task: without ``trains``, the default task's files stand in for those
    of a recorded task.
    """
    try:
        return Library(source_named(overrides, here), here)
    except RefusedError as error:
        if any(text.startswith(f"{TASK_KEY}=") for text in overrides):
            raise
        stand_in = Library(source_of(DEFAULT_TASK, here), here)
        if not trains:
            return stand_in
        raise RefusedError([*_misspelled(overrides, stand_in), *error.problems]) from None


def _misspelled(overrides: list[str], library: Library) -> Iterator[Problem]:
    """The unknown keys in the groups that every task has: perhaps one of them would name the
    study, and so the task."""
    for text in overrides:
        key = text.partition("=")[0]
        if key.startswith(SHARED_GROUPS) and key not in library.keys:
            yield replace(library.hints.unknown_key(key, library.groups), place=COMMAND_LINE)


def source_named(overrides: list[str], here: Path) -> TaskSource:
    """By ``task=NAME``, or by the study that ``sweep.name`` and ``paths.runs`` name. Raises
    RefusedError."""
    names = _typed_names(overrides)
    if TASK_KEY in names:
        return _typed_source(names[TASK_KEY], here)
    study = _named_study(names, here)
    return source_of(usual_task(here), here) if study is None else source_of_study(study, here)


def source_of_study(study: Study, here: Path) -> TaskSource:
    """The task that a study has recorded. Raises RefusedError if another task has that name
    today, or if allelse did not run the study."""
    refuse_observed(study)
    options = study.chosen.get("options", {})
    source = source_of(str(options.get(TASK_KEY, study.task.name)), here)
    if source.task.name != study.task.name:
        fault = f'is "{source.name}", now a task named {source.task.name}'
        fault += f"; {study.name} was made with {study.task.name}"
        allowed = "restore the file, or choose another study"
        raise refusal(TASK_KEY, fault, allowed)
    return source


def refuse_observed(study: Study) -> None:
    """Raises RefusedError for a study that was imported: no task of ours trained its trials."""
    if is_observed(study.folder):
        table = command("table", by_name(study.folder))
        fault = f"is {study.name}, which was imported: allelse did not run its trials"
        allowed = f"type `{table}`, or choose another name to train"
        raise refusal("sweep.name", fault, allowed)


def _typed_source(name: str, here: Path) -> TaskSource:
    """The task with the typed name. Raises RefusedError."""
    try:
        return source_of(name, here)
    except RefusedError as error:
        raise RefusedError(
            replace(problem, place=problem.place or COMMAND_LINE) for problem in error.problems
        ) from None


def _typed_names(overrides: list[str]) -> dict[str, str]:
    """By key, the names in the overrides that decide the task. A number may be a name too."""
    names = {}
    for text in overrides:
        override = parsed(text) if text.startswith(NAMES_TASK) else None
        if override is None or override.is_sweep:
            continue
        value = override.value
        if isinstance(value, str):
            names[override.key] = value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            names[override.key] = override.value_text
    return names


def _named_study(names: dict[str, str], here: Path) -> Study | None:
    name = names.get("sweep.name")
    if name is None:
        return None
    try:
        return known_study(here / at_home(names.get("paths.runs", "runs")) / name)
    except RefusedError:  # reported when the study is read
        return None
