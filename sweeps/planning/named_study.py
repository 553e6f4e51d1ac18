"""The recorded study that a command names, or takes if it names none."""

from dataclasses import dataclass, replace
from pathlib import Path

from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.planning.compose import compose_settings, library_of, source_named
from sweeps.planning.naming import (
    FREE,
    NAMING,
    by_name,
    chosen,
    known_study,
    names_study,
    studies_there,
    study_names,
)
from sweeps.schema import COMMAND_LINE, Problem, RefusedError, damaged, nearest
from tracking.shell import shell_line
from tracking.study import Study, studies


@dataclass(frozen=True)
class Taken:
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
    unused = [
        key for key in (*typed.choices, *typed.values) if not chosen([f"{key}="], NAMING, used)
    ]
    allowed = "to find a study and its runs it takes task=, data=, scale=, sweep.name=, paths. and tracking."
    problems += [
        Problem(key, "is not used by a verb that only reads", allowed, None, COMMAND_LINE)
        for key in unused
    ]
    if problems:
        raise RefusedError(problems)
    return compose_settings(overrides or [], library=library)


def named_study(settings: Settings) -> Study:
    """The study of these settings. Raises RefusedError with the nearest name if it is not
    recorded."""
    folder = settings.study_folder
    runs = Path(settings.paths.runs)
    study = known_study(folder)
    if study is None:
        near = nearest(folder.name, study_names(runs))
        found = f'is "{folder.name}", but {runs} has no such study'
        raise RefusedError(
            [
                Problem(
                    "sweep.name",
                    found,
                    studies_there(runs),
                    near and shell_line([by_name(runs / near)]),
                )
            ]
        )
    return study


def study_to_read(overrides: list[str] | None, used: tuple[str, ...] = ()) -> Taken:
    """The named study; without a name, the one that was active last. Raises RefusedError.

    ``used`` begin the keys that the verb uses besides names and places.
    """
    settings = settings_to_read(overrides, used)
    if names_study(overrides):
        return Taken(named_study(settings), settings)
    found, faults = studies(Path(settings.paths.runs))
    if not found and faults:
        raise RefusedError(map(damaged, faults))
    if not found:
        raise RefusedError([_no_study(Path(settings.paths.runs))])
    unread = tuple(f"Skipped: {fault}" for fault in faults)
    return Taken(found[0], _named(settings, found[0].name), (*_choice(found), *unread))


def study_to_change(overrides: list[str] | None) -> Taken:
    """The named study, or the only one: what removes something does not guess. Raises
    RefusedError."""
    settings = settings_to_read(overrides)
    names = study_names(Path(settings.paths.runs))
    if not names_study(overrides) and len(names) > 1:
        found = f"is missing, and {settings.paths.runs} has {len(names)} studies"
        raise RefusedError([Problem("sweep.name", found, f"must be one of {', '.join(names)}")])
    if not names_study(overrides) and not names:
        raise RefusedError([_no_study(Path(settings.paths.runs))])
    named = settings if names_study(overrides) else _named(settings, names[0])
    return Taken(named_study(named), named)


def _no_study(runs: Path) -> Problem:
    """The refusal of a folder without studies, with the nearest one above it that has some."""
    above = (parent / runs.name for parent in runs.parents[1:])
    near = next((place for place in above if study_names(place)), None)
    allowed = "go to the folder whose runs/ holds the study; `allelse sweep` begins one here"
    meant = shell_line([f"paths.runs={near}"]) if near else None
    return Problem("paths.runs", f"has no study: {runs}", allowed, meant)


def _named(settings: Settings, study: str) -> Settings:
    return replace(settings, sweep=replace(settings.sweep, name=study))


def _choice(found: list[Study]) -> list[str]:
    """Which of several studies was taken."""
    if len(found) == 1:
        return []
    chosen = f"Study {found[0].name}, the most recently active of {len(found)}"
    return [f"{chosen}; sweep.name=NAME takes another, and `allelse studies` lists them"]


def going_on(
    study: Path, overrides: list[str] | None, *more: tuple[str, ...], scores_again: bool = False
) -> list[str]:
    """The overrides for a verb that runs the study: its name, and the settings that may change.

    ``scores_again``: with those that score trials again.
    """
    observing, scoring = _keys(overrides)
    return [
        by_name(study),
        *chosen(overrides, (*FREE, *observing), scoring if scores_again else (), *more),
    ]


def _keys(overrides: list[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """How overrides begin that only observe, and those that only score; none if the task cannot be
    imported."""
    try:
        schema = Schema.of(source_named(overrides or [], Path.cwd()).task)
    except RefusedError:
        return (), ()
    scoring = [*sorted(schema.scores), *sorted(schema.scoring_groups)]
    return tuple(f"{key}=" for key in sorted(schema.observes)), tuple(f"{key}=" for key in scoring)
