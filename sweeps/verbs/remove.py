"""``drop`` and ``rm`` move folders to the trash, and say how to move them back. Without --yes they
only list them."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from filelock import FileLock, Timeout
from rich.markup import escape

from sweeps.config.files import BASE
from sweeps.console import OUT, next_verb
from sweeps.planning.studies.advice import command, studies_there
from sweeps.planning.studies.known_studies import study_names
from sweeps.planning.studies.renaming import refuse_half_renamed
from sweeps.planning.studies.study_overrides import PLACES, chosen, looking, names_study, placed
from sweeps.planning.studies.trash import new_folder, note_dropped
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.problems import Problem, RefusedError, nearest
from sweeps.verbs.command import guarded, names_and_overrides, part, unknown
from tracking.card import Card
from tracking.files import unless_damaged
from tracking.study import Study, StudyTrial, read_study, write_study
from tracking.trial import TrialFolder
from tracking.uri import shown_words
from tracking.words import shell_line

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Move them. Without it, only show what would be moved.")
]
Dropped = Annotated[
    list[str],
    typer.Argument(metavar="ROW|TRIAL… [KEY=VALUE …]", help="Rows or trials, then overrides."),
]
Studies = Annotated[
    list[str], typer.Argument(metavar="STUDY… [KEY=VALUE …]", help="Studies, then overrides.")
]
ANY = Card("any", 1, ())
"""Of trials whose task does not matter: a folder is moved whatever its files hold."""


@guarded
def drop(arguments: Dropped, yes: Yes = False) -> None:
    """Remove rows or trials from a study. Their folders move to the trash; `allelse restore` brings
    them back."""
    from sweeps.planning.studies.named_study import (
        study_to_change,  # imports Hydra, which `--help` does not need
    )

    names, overrides = names_and_overrides(arguments)
    if not names:
        raise RefusedError(
            [Problem("ROW", "is missing", "must name a row or a trial of the study")]
        )
    study = study_to_change(overrides).study
    trials = _named(study, names)
    if not yes:
        _preview([study.trial_folder(trial).path for trial in trials])
        return next_verb("drop", [*arguments, "--yes"])
    folders = [study.trial_folder(trial) for trial in trials]
    elsewhere = checkpoint_places(folders)
    with held(map(trial_lock, folders)):
        place = _drop(study.folder, names, ["allelse", "drop", *arguments, "--yes"])
    _print_moved(place, elsewhere)
    return next_verb("table", looking(study.folder, overrides))


@guarded
def rm(arguments: Studies, yes: Yes = False) -> None:
    """Remove whole studies. Their folders move to the trash; `allelse restore` brings them back."""
    from sweeps.planning.studies.named_study import settings_to_read

    names, overrides = names_and_overrides(arguments)
    settings = settings_to_read(overrides)
    if not names and not names_study(overrides):
        raise RefusedError([Problem("STUDY", "is missing", "`allelse studies` lists them")])
    studies = _studies(Path(settings.paths.runs), names or [settings.study_folder.name])
    if not yes:
        _preview(studies)
        return next_verb("rm", [*arguments, "--yes"])
    trials = [trial for study in studies for trial in trials_below(study)]
    with held([*map(unsynced, studies), *map(trial_lock, trials)]):
        for study in studies:
            place = new_folder(study)
            elsewhere = checkpoint_places(trials_below(study))
            place.parent.mkdir(exist_ok=True)
            study.rename(place)
            _print_moved(place, elsewhere)
    return next_verb("studies", chosen(overrides, PLACES))


def _preview(folders: Sequence[Path]) -> None:
    there = [folder for folder in folders if folder.exists()]
    OUT.print(
        "Would move to the trash:"
        if there
        else "Would change only the study's record: no trial has begun."
    )
    for folder in there:
        OUT.print(f"  {escape(os.path.relpath(folder))}", soft_wrap=True)


def _print_moved(place: Path, elsewhere: Sequence[str]) -> None:
    OUT.print(f"Moved to {escape(os.path.relpath(place))}/", soft_wrap=True)
    restore = command("restore", place.name, *placed(place.parent.with_name("study")))
    OUT.print(f"To restore: [bold]{escape(restore)}[/]", soft_wrap=True)
    for address in elsewhere:
        OUT.print(f"Checkpoints at {escape(address)} stay.", soft_wrap=True)
    OUT.print(
        "Runs of dropped trials leave MLflow with the next sync; those of removed studies stay.",
        style="dim",
    )


def checkpoint_places(trials: Sequence[TrialFolder]) -> list[str]:
    """``paths.checkpoints`` of the trials that have their checkpoints outside of their folders."""
    configs = [unless_damaged(trial.config, None) for trial in trials]
    return sorted(
        {(config or {}).get("paths", {}).get("checkpoints") or "" for config in configs} - {""}
    )


@contextmanager
def held(locks: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    """Hold these locks. Raises RefusedError with everything that other processes hold."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        for lock in locks:
            try:
                stack.enter_context(lock)
            except RefusedError as error:
                problems += error.problems
        if problems:
            raise RefusedError(problems)
        yield


@contextmanager
def unsynced(study: Path) -> Iterator[None]:
    """Keep other processes from syncing the study. Raises RefusedError if one does."""
    from tracking.mlflow.ledger import sync_lock  # loads what `--help` does not need

    try:
        held = sync_lock(study).acquire(timeout=0)
    except Timeout:
        found = f"{study.name} is being synced to MLflow by another process"
        raise RefusedError([Problem("STUDY", found, "wait for it")]) from None
    with held:
        yield


def _drop(study: Path, names: Sequence[str], typed: Sequence[str]) -> Path:
    """Move trials; returns their folder in the trash, with the former `study.json`. Raises
    RefusedError.

    The folders move first: if the process dies in between, the command can be repeated.
    """
    refuse_half_renamed(study)
    with FileLock(study / ".locks" / "study"):
        now = read_study(study)  # another process may have added trials
        trials = _named(now, names)
        place = new_folder(study)
        left = _without(now, trials, typed)  # while all results are still there
        note_dropped(place, now, trials)
        for trial in trials:
            if (path := now.trial_folder(trial).path).exists():
                path.rename(place / path.name)
        write_study(left)
    return place


def _named(study: Study, names: Sequence[str]) -> list[StudyTrial]:
    """The trials that the names mean, in the order of the table. Raises RefusedError with every
    problem."""
    allowed = f"must be one of them, or a trial such as {study.trials[-1].name}"
    problems = [
        unknown("ROW", name, study, "rows", allowed)
        for name in dict.fromkeys(names)
        if not part(study, name, name)
    ]
    trials = [trial for trial in study.trials if trial.row in names or trial.name in names]
    problems += [*_left_without_base(study, trials), *_left_without_weights(study, trials)]
    if problems:
        raise RefusedError(problems)
    return trials


def _left_without_base(study: Study, trials: list[StudyTrial]) -> Iterator[Problem]:
    """A problem if nothing would be left, or only rows that cannot be compared with base."""
    left = [trial.row for trial in study.trials if trial not in trials]
    if trials and not left:
        whole = command("rm", study.name, *placed(study.folder))
        yield Problem("ROW", f"names every trial of {study.name}", f"`{whole}` removes it")
    elif any(trial.row == BASE for trial in trials) and BASE not in left:
        found = f"is base, with which {', '.join(dict.fromkeys(left))} are compared"
        yield Problem("ROW", found, "drop the other rows first")


def _left_without_weights(study: Study, trials: list[StudyTrial]) -> Iterator[Problem]:
    """A problem for each trial whose weights others score that would be left."""
    left = [trial for trial in study.trials if trial not in trials]
    for host in trials:
        users = [trial.name for trial in left if trial.weights == host.name]
        if users:
            yield Problem(
                host.name, f"has the weights that {', '.join(users)} score", "drop those first"
            )


def _without(study: Study, dropped: Sequence[StudyTrial], typed: Sequence[str]) -> Study:
    """The study's record without these trials, and without rows and seeds that no other trial
    has."""
    trials = tuple(trial for trial in study.trials if trial not in dropped)
    rows = {trial.row for trial in trials}
    seeds = {trial.seed for trial in trials}
    asked = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shell_line(shown_words(typed)),
        "dropped": [trial.name for trial in dropped],
        "saw_results": study.has_results,
    }
    return replace(
        study,
        trials=trials,
        rows=tuple(row for row in study.rows if row["row"] in rows),
        seeds=tuple(seed for seed in study.seeds if seed in seeds),
        cells={row: cells for row, cells in study.cells.items() if row in rows},
        asked=(*study.asked, asked),
    )


def _studies(runs: Path, names: Sequence[str]) -> list[Path]:
    """The folders of studies by name, or by path as a shell completes it. Raises RefusedError with
    all other names."""
    known = study_names(runs)
    meant = {name: _plain(runs, name) for name in names}
    problems = [
        Problem(
            "STUDY",
            f'is "{name}", but {runs} has no such study',
            studies_there(runs),
            nearest(name, known),
        )
        for name, study in meant.items()
        if study not in known
    ]
    if problems:
        raise RefusedError(problems)
    return [runs / study for study in dict.fromkeys(meant.values())]


def _plain(runs: Path, name: str) -> str:
    """The study's name, also of a path such as `runs/multi30k-half/`."""
    path = Path(name).absolute()
    return path.name if "/" in name and path.parent.resolve() == runs.resolve() else name


def trials_below(study: Path) -> list[TrialFolder]:
    """Every folder of a study that may be a trial's, also if `study.json` is damaged."""
    return [
        TrialFolder(path, ANY)
        for path in sorted(study.iterdir())
        if path.is_dir() and path.name[0] != "."
    ]
