"""The recorded study that a command names, or takes if it names none."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.function_task import GROUP
from sweeps.planning.studies.advice import no_such_study
from sweeps.planning.studies.known_studies import known_study, study_names
from sweeps.planning.studies.study_overrides import FREE, NAMING, by_name, chosen, names_study
from sweeps.planning.study_rows.compose import compose_settings
from sweeps.planning.study_rows.task_choice import library_of, source_named
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, damaged, refusal, refuse
from tracking.shell import shell_line
from tracking.study import Study, studies

READS = "task=, data=, scale=, sweep.name=, paths. and tracking."


@dataclass(frozen=True)
class NamedStudy:
    """A study with the settings that name it. ``notices`` say which one was taken, if there was a
    choice."""

    study: Study
    settings: Settings
    notices: tuple[str, ...] = ()


def settings_to_read(overrides: list[str] | None, used: tuple[str, ...] = ()) -> Settings:
    """``compose_settings`` for a verb that only reads: what it would not use is refused. Raises
    RefusedError.

    It uses names and places of a study, and keys that begin as ``used``.
    """
    library = library_of(overrides or [], Path.cwd(), trains=False)
    typed, problems = parse_overrides(overrides or [], library)
    allowed = f"to find a study and its runs, use {READS}"
    for key in (*typed.choices, *typed.values):
        if not chosen([f"{key}="], NAMING, used):
            fault = "is not used by a verb that only reads"
            problems.append(Problem(key, fault, allowed, place=COMMAND_LINE))
    refuse(problems)
    return compose_settings(overrides or [], library)


def named_study(settings: Settings) -> Study:
    """The study of these settings. Raises RefusedError with the nearest name if it is not
    recorded."""
    folder = settings.study_folder
    study = known_study(folder)
    if study is None:
        problem = no_such_study("sweep.name", folder.name, Path(settings.paths.runs))
        near = problem.suggestion
        suggestion = near and shell_line([by_name(folder.with_name(near))])
        raise RefusedError([replace(problem, nearest=suggestion)])
    return study


def study_to_read(overrides: list[str] | None, used: tuple[str, ...] = ()) -> NamedStudy:
    """The named study; without a name, the one that was active last. Raises RefusedError.

    ``used`` begin the keys that the verb uses besides names and places.
    """
    settings = settings_to_read(overrides, used)
    if names_study(overrides):
        return NamedStudy(named_study(settings), settings)
    runs = Path(settings.paths.runs)
    recorded, faults = studies(runs)
    if not recorded and faults:
        raise RefusedError(map(damaged, faults))
    if not recorded:
        raise RefusedError([_no_study(runs)])
    newest = recorded[0]
    notices = [f"Skipped: {fault}" for fault in faults]
    if len(recorded) > 1:
        notice = f"Study {newest.name}, the most recently active of {len(recorded)}"
        notice += "; sweep.name=NAME chooses another, and `allelse studies` lists them"
        notices.insert(0, notice)
    return NamedStudy(newest, _with_name(settings, newest.name), tuple(notices))


def study_to_change(overrides: list[str] | None) -> NamedStudy:
    """The named study, or the only one: what removes something does not guess. Raises
    RefusedError."""
    settings = settings_to_read(overrides)
    if names_study(overrides):
        return NamedStudy(named_study(settings), settings)
    runs = Path(settings.paths.runs)
    names = study_names(runs)
    if not names:
        raise RefusedError([_no_study(runs)])
    if len(names) > 1:
        fault = f"is missing, and {runs} has {len(names)} studies"
        raise refusal("sweep.name", fault, f"must be one of {', '.join(names)}")
    settings = _with_name(settings, names[0])
    return NamedStudy(named_study(settings), settings)


def _no_study(runs: Path) -> Problem:
    """The refusal of a folder without studies, with the nearest one above it that has some."""
    folders = (parent / runs.name for parent in runs.parents[1:])
    near = next((folder for folder in folders if study_names(folder)), None)
    suggestion = shell_line([f"paths.runs={near}"]) if near else None
    allowed = "go to the folder with the study's runs/; `allelse sweep` starts one here"
    return Problem("paths.runs", f"has no study: {runs}", allowed, suggestion)


def _with_name(settings: Settings, study: str) -> Settings:
    return replace(settings, sweep=replace(settings.sweep, name=study))


def going_on(study: Path, overrides: list[str] | None, scores_again: bool = False) -> list[str]:
    """The overrides for a verb that runs the study: its name, and the settings that may change.

    ``scores_again``: also those that score trials again.
    """
    observing, scoring = _task_kinds(overrides)
    changing = scoring if scores_again else ()
    return [by_name(study), *chosen(overrides, FREE, observing, changing)]


def _task_kinds(overrides: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How overrides begin that only observe, and those that only score; none if the task cannot be
    imported."""
    try:
        schema = Schema.of(source_named(overrides or [], Path.cwd()).task)
    except RefusedError:
        return (), ()
    return _starts(schema.observes), _starts([*schema.scores, *schema.scoring_groups])


def _starts(keys: Iterable[str]) -> tuple[str, ...]:
    """How overrides of these keys begin. Those of a function may lack its group."""
    names = {name for key in keys for name in (key, key.removeprefix(f"{GROUP}."))}
    return tuple(f"{name}=" for name in sorted(names))
