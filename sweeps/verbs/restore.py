"""The verb ``restore`` lists the trash, and brings studies, rows and trials back from it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from sweeps.console import OUT, next_command, next_verb, print_line
from sweeps.planning.studies.advice import some_of
from sweeps.planning.studies.restoring import restore_study, restore_trials
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen
from sweeps.planning.studies.trash import Trashed, trashed
from sweeps.problems import Problem, RefusedError, Typo, refuse
from sweeps.verbs.command import guarded, names_and_overrides
from tracking.table.text import Column, TextTable, lines_of, terminal, text_column

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[STUDY|ROW|TRIAL…] [KEY=VALUE …]", help="What to restore, then overrides."
    ),
]


@guarded
def restore(arguments: Names = None) -> None:
    """Bring back what `drop` and `rm` moved to the trash. Without names, list the trash."""
    # Imports Hydra, which `--help` does not need.
    from sweeps.planning.studies.named_study import settings_to_read

    names, overrides = names_and_overrides(arguments or [])
    items = trashed(Path(settings_to_read(overrides).paths.runs))
    if not names:
        _list(items)
        return
    typed = ["allelse", "restore", *(arguments or ())]
    restored = list[Path]()
    for item, trials in _named_items(names, items):
        try:
            restored.append(_restore(item, trials, typed))
        except RefusedError as error:
            outcome = "Nothing else was restored." if restored else ""
            raise RefusedError(error.problems, error.outcome or outcome) from None
    next_verb("table", [by_name(restored[-1]), *chosen(overrides, PLACES)])


def _named_items(names: Sequence[str], items: Sequence[Trashed]) -> list[tuple[Trashed, list[str]]]:
    """The folders of the trash that the names mean, each with its named trials.

    Raises RefusedError.
    """
    problems: list[Problem] = []
    trials_of_item: dict[Path, tuple[Trashed, list[str]]] = {}
    for name in dict.fromkeys(names):
        match = _named_item(name, items)
        if isinstance(match, Problem):
            problems.append(match)
            continue
        item, trials = match
        _, all_trials = trials_of_item.setdefault(item.folder, (item, []))
        all_trials += [trial for trial in trials if trial not in all_trials]
    refuse(problems)
    return list(trials_of_item.values())


def _list(items: Sequence[Trashed]) -> None:
    """Print the trash as a table."""
    if not items:
        OUT.print("The trash is empty.")
        return
    columns: tuple[Column[Trashed], ...] = (
        text_column("removed", _moment, "name", "removed (UTC)"),
        text_column("study", lambda item: item.study, "name"),
        text_column("what", _contents),
    )
    OUT.print(terminal(TextTable("", columns, lines_of(columns, items)), OUT.width))
    next_command(items[0].restore_command)


def _moment(item: Trashed) -> str:
    """When it was removed, such as 2030-01-31 12:00:00, from the name of its folder."""
    moment, _, _ = item.name.partition("Z-")
    day, _, clock = moment.partition("T")
    return f"{day[:4]}-{day[4:6]}-{day[6:]} {clock[:2]}:{clock[2:4]}:{clock[4:6]}"


def _contents(item: Trashed) -> str:
    return "the whole study" if item.trials is None else some_of(item.trials)


def _named_item(name: str, items: Sequence[Trashed]) -> tuple[Trashed, Sequence[str]] | Problem:
    """The one folder of the trash that the name means, with its trials; or why there is none."""
    study, _, inner_name = name.rpartition("/")
    matches: list[tuple[Trashed, Sequence[str]]] = []
    for item in items:
        trials = _named_trials(item, study, inner_name)
        if trials is not None:
            matches.append((item, trials))
    if len(matches) == 1:
        return matches[0]
    if matches:
        folders = ", ".join(item.name for item, _ in matches)
        fault = f'is "{name}", which the trash has {len(matches)} times'
        return Problem("NAME", fault, f"must be one of {folders}")
    names: dict[str, None] = {}
    for item in items:
        names |= dict.fromkeys([item.study, *(item.trials or ()), *item.rows()])
    contents = f"the trash has {some_of(list(names))}" if names else "the trash is empty"
    fault = f'is "{name}", which is not in the trash'
    return Problem("NAME", fault, contents, Typo(inner_name, tuple(names)))


def _named_trials(item: Trashed, study: str, inner_name: str) -> Sequence[str] | None:
    """The item's trials of this name: [] for a whole study, None if there are none."""
    if study and study != item.study:
        return None
    if inner_name == item.name:
        return item.trials or []
    if item.trials is None:
        return [] if inner_name == item.study else None
    row_of_trial = {trial.name: trial.row for trial in item.record_of(item.trials)}
    trials = [trial for trial in item.trials if inner_name in (trial, row_of_trial.get(trial))]
    return trials or None


def _restore(item: Trashed, trials: Sequence[str], typed: Sequence[str]) -> Path:
    """Restore the item, print so, and return the study's folder. Raises RefusedError."""
    if item.trials is None:
        study = restore_study(item)
        words = item.study
    else:
        study = restore_trials(item, trials, typed)
        words = ", ".join(trials)
    print_line(OUT, f"Restored {words}")
    return study
