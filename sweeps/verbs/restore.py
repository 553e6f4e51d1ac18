"""``restore`` lists what the trash holds, and brings studies, rows and trials back. It overwrites
nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_command, next_verb
from sweeps.planning.studies.advice import some_of
from sweeps.planning.studies.restoring import restore_study, restore_trials
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen
from sweeps.planning.studies.trash import Trashed, trashed
from sweeps.problems import Problem, RefusedError, nearest
from sweeps.verbs.command import guarded, names_and_overrides
from tracking.table.text import Column, TextTable, lines_of, said, terminal

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDY|ROW|TRIAL…] [KEY=VALUE …]", help="What to restore, then overrides."
    ),
]


@guarded
def restore(arguments: Names = None) -> None:
    """Bring back what `drop` and `rm` have removed. Without names, list what the trash holds."""
    from sweeps.planning.studies.named_study import (
        settings_to_read,  # imports Hydra, which `--help` does not need
    )

    names, overrides = names_and_overrides(arguments or [])
    items = trashed(Path(settings_to_read(overrides).paths.runs))
    if not names:
        _list(items)
        return None
    wanted = [_meant(name, items) for name in dict.fromkeys(names)]
    problems = [each for each in wanted if isinstance(each, Problem)]
    if problems:
        raise RefusedError(problems)
    typed = ["allelse", "restore", *(arguments or ())]
    studies = [_restored(item, trials, typed) for item, trials in _by_item(wanted)]
    return next_verb("table", [by_name(studies[-1]), *chosen(overrides, PLACES)])


def _by_item(
    wanted: Sequence[tuple[Trashed, Sequence[str]] | Problem],
) -> list[tuple[Trashed, Sequence[str]]]:
    """Each folder of the trash once, with all its trials that are meant."""
    trials_of: dict[Path, tuple[Trashed, list[str]]] = {}
    for each in wanted:
        if isinstance(each, Problem):
            continue
        item, trials = each
        known = trials_of.setdefault(item.folder, (item, []))[1]
        known += [trial for trial in trials if trial not in known]
    return list(trials_of.values())


def _list(items: Sequence[Trashed]) -> None:
    if not items:
        OUT.print("The trash is empty.")
        return
    columns: tuple[Column[Trashed], ...] = (
        said("removed", _moment, "name", "removed (UTC)"),
        said("study", lambda item: item.study, "name"),
        said("what", _contents),
    )
    OUT.print(terminal(TextTable("", columns, lines_of(columns, items)), OUT.width))
    next_command(items[0].restore_command)


def _moment(item: Trashed) -> str:
    """Such as 2030-01-31 12:00:00, from the name of its folder."""
    day, _, clock = item.name.partition("Z-")[0].partition("T")
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {clock[:2]}:{clock[2:4]}:{clock[4:6]}"


def _contents(item: Trashed) -> str:
    return "the whole study" if item.trials is None else some_of(item.trials)


def _meant(name: str, items: Sequence[Trashed]) -> tuple[Trashed, Sequence[str]] | Problem:
    """The folder of the trash that the name means, and those of its trials; or why there is no such
    one."""
    study, _, inner = name.rpartition("/")
    matches = [(item, _matching(item, study, inner)) for item in items]
    places = [(item, trials) for item, trials in matches if trials is not None]
    if len(places) == 1:
        return places[0]
    if places:
        folders = ", ".join(item.name for item, _ in places)
        found = f'is "{name}", which the trash has {len(places)} times'
        return Problem("NAME", found, f"must be one of {folders}")
    there: dict[str, None] = {}
    for item in items:
        there |= dict.fromkeys([item.study, *(item.trials or ()), *item.rows()])
    allowed = f"the trash has {some_of(list(there))}" if there else "the trash is empty"
    return Problem(
        "NAME", f'is "{name}", which is not in the trash', allowed, nearest(inner, there)
    )


def _matching(item: Trashed, study: str, inner: str) -> Sequence[str] | None:
    """The trials of the item that the name means: [] for a whole study; None if it means none of
    it."""
    if study and study != item.study:
        return None
    if inner == item.name:
        return item.trials or []
    if item.trials is None:
        return [] if inner == item.study else None
    rows = {trial.name: trial.row for trial in item.record_of(item.trials)}
    return [trial for trial in item.trials if inner in (trial, rows.get(trial))] or None


def _restored(item: Trashed, trials: Sequence[str], typed: Sequence[str]) -> Path:
    """Restore it, say so, and return the study's folder. Raises RefusedError."""
    if item.trials is None:
        study = restore_study(item)
        words = item.study
    else:
        study = restore_trials(item, trials, typed)
        words = ", ".join(trials)
    OUT.print(f"Restored {escape(words)}", soft_wrap=True)
    return study
