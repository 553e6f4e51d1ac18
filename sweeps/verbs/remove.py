"""The verbs ``drop`` and ``rm`` move folders to the trash. Without --yes, they only list them."""

import os
import resource
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from filelock import Timeout
from rich.markup import escape

from sweeps.config.files import BASE
from sweeps.console import OUT, next_verb, print_line
from sweeps.planning.studies.advice import command, no_such_study
from sweeps.planning.studies.known_studies import log_entry, study_names
from sweeps.planning.studies.published_copy import refuse_published
from sweeps.planning.studies.renaming import refuse_half_renamed
from sweeps.planning.studies.study_overrides import PLACES, chosen, looking, names_study, placed
from sweeps.planning.studies.trash import new_folder, note_dropped
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.problems import Problem, RefusedError, refusal, refuse
from sweeps.verbs.command import guarded, names_and_overrides
from sweeps.verbs.names import trials_of, unknown_name
from tracking.card import Card
from tracking.files import DamagedFileError, unless_damaged
from tracking.study import Study, StudyMissing, StudyTrial, read_study, record_lock, write_study
from tracking.trial import TrialFolder

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Move them. Without it, only show what would move.")
]
Dropped = Annotated[
    list[str],
    typer.Argument(metavar="ROW|TRIAL… [KEY=VALUE …]", help="Rows or trials, then overrides."),
]
Studies = Annotated[
    list[str], typer.Argument(metavar="STUDY… [KEY=VALUE …]", help="Studies, then overrides.")
]
ANY = Card("any", 1, ())
"""The card of trials whose task does not matter: a folder moves whatever its files hold."""


@guarded
def drop(arguments: Dropped, yes: Yes = False) -> None:
    """Move rows or trials of a study to the trash. `allelse restore` brings them back."""
    # Imports Hydra, which `--help` does not need.
    from sweeps.planning.studies.named_study import study_to_change

    names, overrides = names_and_overrides(arguments)
    if not names:
        allowed = "must name a row or a trial of the study"
        raise refusal("ROW", "is missing", allowed)
    study = study_to_change(overrides).study
    refuse_published(study.folder)
    trials = _named_trials(study, names)
    if not yes:
        _preview([study.trial_folder(trial).path for trial in trials])
        next_verb("drop", [*arguments, "--yes"])
        return
    folders = [study.trial_folder(trial) for trial in trials]
    checkpoints = checkpoint_places(folders)
    with holding(map(trial_lock, folders)):
        trash = _drop(study.folder, names, ["allelse", "drop", *arguments, "--yes"])
    _print_moved(trash, checkpoints)
    next_verb("table", looking(study.folder, overrides))


@guarded
def rm(arguments: Studies, yes: Yes = False) -> None:
    """Move whole studies to the trash. `allelse restore` brings them back."""
    from sweeps.planning.studies.named_study import settings_to_read

    names, overrides = names_and_overrides(arguments)
    settings = settings_to_read(overrides)
    if not names and not names_study(overrides):
        raise refusal("STUDY", "is missing", "`allelse studies` lists them")
    studies = _studies(Path(settings.paths.runs), names or [settings.study_folder.name])
    for study in studies:
        refuse_published(study)
    if not yes:
        _preview(studies)
        next_verb("rm", [*arguments, "--yes"])
        return
    trials = [trial for study in studies for trial in trials_below(study)]
    with holding([*map(unsynced, studies), *map(trial_lock, trials)]):
        for study in studies:
            trash = new_folder(study)
            checkpoints = checkpoint_places(trials_below(study))
            trash.parent.mkdir(exist_ok=True)
            study.rename(trash)
            _print_moved(trash, checkpoints)
    next_verb("studies", chosen(overrides, PLACES))


def _preview(folders: Sequence[Path]) -> None:
    """Print what would move to the trash."""
    existing = [folder for folder in folders if folder.exists()]
    if not existing:
        OUT.print("Would only change the study's record, because no trial has started.")
        return
    OUT.print("Would move to the trash:")
    for folder in existing:
        print_line(OUT, f"  {os.path.relpath(folder)}")


def _print_moved(trash: Path, checkpoints: Sequence[str]) -> None:
    """Print the new folder, how to restore it, and which checkpoints lie elsewhere."""
    print_line(OUT, f"Moved to {os.path.relpath(trash)}/")
    restore = command("restore", trash.name, *placed(trash.parent.with_name("study")))
    OUT.print(f"To restore: [bold]{escape(restore)}[/]", soft_wrap=True)
    for address in checkpoints:
        print_line(OUT, f"Checkpoints at {address} stay.")
    OUT.print(
        "Runs of dropped trials leave MLflow with the next sync; those of removed studies stay.",
        style="dim",
    )


def checkpoint_places(trials: Sequence[TrialFolder]) -> list[str]:
    """``paths.checkpoints`` of the trials whose checkpoints lie outside of their folders."""
    places: set[str] = set()
    for trial in trials:
        config = unless_damaged(trial.config, None) or {}
        address = config.get("paths", {}).get("checkpoints")
        if address:
            places.add(address)
    return sorted(places)


@contextmanager
def holding(locks: Iterable[AbstractContextManager[None]]) -> Iterator[None]:
    """Hold these locks. Raises RefusedError with all locks that other processes hold."""
    _allow_open_files()
    problems: list[Problem] = []
    with ExitStack() as stack:
        for lock in locks:
            try:
                stack.enter_context(lock)
            except RefusedError as error:
                problems += error.problems
        refuse(problems)
        yield


def _allow_open_files() -> None:
    """As many as the system lets this process open: each lock is an open file."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a system may have a lower limit than it names
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextmanager
def unsynced(study: Path) -> Iterator[None]:
    """Keep other processes from syncing the study. Raises RefusedError if one does."""
    from tracking.mlflow.ledger import sync_lock  # loads what `--help` does not need

    try:
        lock = sync_lock(study).acquire(timeout=0)
    except Timeout:
        fault = f"{study.name} is being synced to MLflow by another process"
        raise refusal("STUDY", fault, "wait for it") from None
    with lock:
        yield


def _drop(study: Path, names: Sequence[str], typed: Sequence[str]) -> Path:
    """Move trials. Returns their folder in the trash, which also holds the former `study.json`.

    The folders move first: if the process dies in between, you can repeat the command. Raises
    RefusedError.
    """
    refuse_half_renamed(study)
    with record_lock(study):
        recorded = read_study(study)  # another process may have added trials
        trials = _named_trials(recorded, names)
        trash = new_folder(study)
        remaining = _without(recorded, trials, typed)  # while all results still exist
        note_dropped(trash, recorded, trials)
        for trial in trials:
            path = recorded.trial_folder(trial).path
            if path.exists():
                path.rename(trash / path.name)
        write_study(remaining)
    return trash


def _named_trials(study: Study, names: Sequence[str]) -> list[StudyTrial]:
    """The trials that the names mean, in the order of the table.

    Raises RefusedError with every problem.
    """
    allowed = f"must be one of them, or a trial such as {study.trials[-1].name}"
    problems = [
        unknown_name("ROW", name, study, "rows", allowed)
        for name in dict.fromkeys(names)
        if trials_of(study, name, name) is None
    ]
    trials = [trial for trial in study.trials if trial.row in names or trial.name in names]
    problems += [*_missing_base(study, trials), *_missing_weights(study, trials)]
    refuse(problems)
    return trials


def _missing_base(study: Study, dropped: list[StudyTrial]) -> Iterator[Problem]:
    """A problem if no trial would remain, or rows without the one to compare them with."""
    remaining_rows = list(
        dict.fromkeys(trial.row for trial in study.trials if trial not in dropped)
    )
    if dropped and not remaining_rows:
        rm_command = command("rm", study.name, *placed(study.folder))
        yield Problem("ROW", f"names every trial of {study.name}", f"`{rm_command}` removes it")
        return
    compared_rows: dict[str, list[str]] = {}
    for row in remaining_rows:
        compared_rows.setdefault(study.references.get(row, BASE), []).append(row)
    for reference, rows in compared_rows.items():
        if any(trial.row == reference for trial in dropped) and reference not in remaining_rows:
            fault = f"is {reference}, which {', '.join(rows)} are compared with"
            yield Problem("ROW", fault, "drop the other rows first")


def _missing_weights(study: Study, dropped: list[StudyTrial]) -> Iterator[Problem]:
    """A problem for each dropped trial whose weights a remaining trial scores."""
    remaining = [trial for trial in study.trials if trial not in dropped]
    for host in dropped:
        users = [trial.name for trial in remaining if trial.weights == host.name]
        if users:
            fault = f"has the weights that {', '.join(users)} score"
            yield Problem(host.name, fault, "drop those first")


def _without(study: Study, dropped: Sequence[StudyTrial], typed: Sequence[str]) -> Study:
    """The study's record without these trials, and their rows and seeds if no trial is left."""
    trials = tuple(trial for trial in study.trials if trial not in dropped)
    rows = {trial.row for trial in trials}
    seeds = {trial.seed for trial in trials}
    names = [trial.name for trial in dropped]
    entry = log_entry(typed, {"dropped": names, "saw_results": study.has_results})
    return replace(
        study,
        trials=trials,
        rows=tuple(row for row in study.rows if row["row"] in rows),
        seeds=tuple(seed for seed in study.seeds if seed in seeds),
        cells={row: cells for row, cells in study.cells.items() if row in rows},
        asked=(*study.asked, entry),
    )


def _studies(runs: Path, names: Sequence[str]) -> list[Path]:
    """The folders of studies by name, or by path as a shell completes it.

    Raises RefusedError with all unknown names.
    """
    recorded = study_names(runs)
    problems: list[Problem] = []
    folders: dict[Path, None] = {}
    for name in dict.fromkeys(names):
        study = _study_name(runs, name)
        folders[runs / study] = None
        if study not in recorded:
            problems.append(no_such_study("STUDY", name, runs))
    refuse(problems)
    return list(folders)


def _study_name(runs: Path, name: str) -> str:
    """The study's name; ``name`` may be a path such as `runs/multi30k-half/`."""
    path = Path(name).absolute()
    return path.name if "/" in name and path.parent.resolve() == runs.resolve() else name


def trials_below(study: Path) -> list[TrialFolder]:
    """The trials of a study: all folders that may hold one, even if `study.json` is damaged, and all
    that it records, since a sweep also holds trials that have no folder yet."""
    names = {path.name for path in study.iterdir() if path.is_dir() and path.name[0] != "."}
    with suppress(StudyMissing, DamagedFileError):
        names.update(trial.name for trial in read_study(study).trials)
    return [TrialFolder(study / name, ANY) for name in sorted(names)]
