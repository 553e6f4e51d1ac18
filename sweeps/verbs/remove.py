"""``drop`` and ``rm`` move to the trash, from which all can be moved back. Without --yes they only show what."""

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from filelock import FileLock, Timeout
from rich.markup import escape

from sweeps.config.files import BASE
from sweeps.console import OUT, next_verb
from sweeps.planning.naming import looking, names_study, placed, studies_there, study_names
from sweeps.planning.trial_lock import trial_lock
from sweeps.schema import Problem, RefusedError, nearest
from sweeps.verbs.command import guarded, names_and_overrides
from sweeps.verbs.names import part, unknown
from tracking import words
from tracking.card import Card
from tracking.files import unless_damaged, write_atomic
from tracking.study import STUDY_FILE, Study, Trial, read_study, write_study
from tracking.trial import TrialFolder
from tracking.uri import shown_words

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Move them. Without it, only show what would be moved.")]
Dropped = Annotated[
    list[str], typer.Argument(metavar="ROW|TRIAL… [KEY=VALUE …]", help="Rows or trials, then overrides.")
]
Studies = Annotated[list[str], typer.Argument(metavar="STUDY… [KEY=VALUE …]", help="Studies, then overrides.")]
TRASH = ".trash"
LONGEST_IN_TRASH = 200  # bytes of the study's name within the name of a folder of the trash
ANY = Card("any", 1, ())
"""Of trials whose task does not matter: a folder is moved whatever its files hold."""


@guarded
def drop(arguments: Dropped, yes: Yes = False) -> None:
    """Remove rows or trials from a study. Their folders move to the trash, from which they can be moved back."""
    from sweeps.planning.named_study import study_to_change  # imports Hydra, which `--help` does not need

    names, overrides = names_and_overrides(arguments)
    if not names:
        raise RefusedError([Problem("ROW", "is missing", "must name a row or a trial of the study")])
    study = study_to_change(overrides).study
    removal = _of_trials(study, _named(study, names))
    _refuse_running([removal])
    if not yes:
        _preview([removal])
        return next_verb("drop", [*arguments, "--yes"])
    with _locked(removal.trials):
        place = _drop(study.folder, names, ["allelse", "drop", *arguments, "--yes"])
        _moved(removal, place, f"mv {_quoted(place)}/* {_quoted(study.folder)}/")
    return next_verb("table", looking(study.folder, overrides))


@guarded
def rm(arguments: Studies, yes: Yes = False) -> None:
    """Remove whole studies. Their folders move to the trash, from which they can be moved back."""
    from sweeps.planning.named_study import settings_to_read

    names, overrides = names_and_overrides(arguments)
    settings = settings_to_read(overrides)
    if not names and not names_study(overrides):
        raise RefusedError([Problem("STUDY", "is missing", "`allelse studies` lists them")])
    removals = _of_studies(Path(settings.paths.runs), names or [settings.study_folder.name])
    _refuse_running(removals)
    if not yes:
        _preview(removals)
        return next_verb("rm", [*arguments, "--yes"])
    for number, removal in enumerate(removals):
        try:
            place = _remove(removal)
        except RefusedError as error:  # a process took it up a moment ago
            raise RefusedError(error.problems, "The other studies were not moved." if number else "") from None
        _moved(removal, place, f"mv {_quoted(place)} {_quoted(removal.study)}")
    return next_verb("studies", [override for override in overrides if override.startswith("paths.")])


@dataclass(frozen=True)
class Removal:
    """What is moved: folders with their bytes, the trials in them, and addresses of checkpoints that stay."""

    study: Path
    sizes: dict[str, int]
    trials: tuple[TrialFolder, ...]
    left: tuple[str, ...]

    @staticmethod
    def of(study: Path, folders: Sequence[Path], trials: Sequence[TrialFolder]) -> "Removal":
        sizes = {folder.name: size(folder) for folder in folders if folder.exists()}
        elsewhere = ((trial, _checkpoint_place(trial)) for trial in trials)
        left = tuple(trial.checkpoints_url(place) for trial, place in elsewhere if place)
        return Removal(study, sizes, tuple(trials), left)


def _checkpoint_place(trial: TrialFolder) -> str | None:
    """``paths.checkpoints`` of the trial: checkpoints outside of its folder."""
    config = unless_damaged(trial.config, None) or {}
    place: str | None = config.get("paths", {}).get("checkpoints")
    return place


def size(path: Path) -> int:
    """Bytes of all files below the path. Links are not followed."""
    if path.is_dir() and not path.is_symlink():
        return sum(map(size, path.iterdir()))
    return path.lstat().st_size


def _preview(removals: Sequence[Removal]) -> None:
    sizes = {name: count for removal in removals for name, count in removal.sizes.items()}
    trash = removals[0].study.parent / TRASH
    OUT.print(f"Would move {words.size(sum(sizes.values()))} to {escape(_shown(trash))}/:", soft_wrap=True)
    for name, count in sizes.items():
        OUT.print(f"  {escape(name)}, {words.size(count)}", soft_wrap=True)
    _print_left([address for removal in removals for address in removal.left])


def _moved(removal: Removal, place: Path, restore: str) -> None:
    OUT.print(f"Moved {words.size(sum(removal.sizes.values()))} to {escape(_shown(place))}/", soft_wrap=True)
    OUT.print(f"To restore: [bold]{escape(restore)}[/]", soft_wrap=True)
    _print_left(removal.left)


def _print_left(addresses: Sequence[str]) -> None:
    """What is left where it is."""
    for address in addresses:
        OUT.print(f"Checkpoints stay at {escape(address)}", soft_wrap=True)
    OUT.print("MLflow keeps their runs.", style="dim")


def _shown(path: Path) -> str:
    """Relative to the current folder if it lies below."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _quoted(path: Path) -> str:
    return shlex.quote(_shown(path))


def _refuse_running(removals: Sequence[Removal]) -> None:
    """Raises RefusedError if another process runs one of the trials. Leaves no file."""
    trials = [trial for removal in removals for trial in removal.trials]
    with _locked([trial for trial in trials if (trial.path.parent / ".locks" / trial.path.name).exists()]):
        return


@contextmanager
def _locked(trials: Sequence[TrialFolder]) -> Iterator[None]:
    """Keep other processes from running the trials. Raises RefusedError with each one that is running."""
    problems: list[Problem] = []
    with ExitStack() as stack:
        for trial in trials:
            try:
                stack.enter_context(trial_lock(trial))
            except RefusedError as error:
                problems += error.problems
        if problems:
            raise RefusedError(problems)
        yield


def _free_place(study: Path) -> Path:
    """A path in the trash that does not exist, such as `.trash/20300131T120000Z-multi30k-half`."""
    name = study.name.encode()[:LONGEST_IN_TRASH].decode(errors="ignore")
    first = study.parent / TRASH / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{name}"
    place, number = first, 1
    while place.exists():
        number += 1
        place = first.with_name(f"{first.name}-{number}")
    return place


def _of_trials(study: Study, trials: Sequence[Trial]) -> Removal:
    folders = [study.trial_folder(trial) for trial in trials]
    return Removal.of(study.folder, [folder.path for folder in folders], folders)


def _drop(study: Path, names: Sequence[str], command: Sequence[str]) -> Path:
    """Move trials; returns their folder in the trash, with the former `study.json`. Raises RefusedError.

    The folders move first: if the process dies in between, the command can be repeated.
    """
    with FileLock(study / ".locks" / "study"):
        now = read_study(study)  # another process may have added trials
        trials, place = _named(now, names), _free_place(study)
        left = _without(now, trials, command)  # while all results are still there
        write_atomic(place / STUDY_FILE, (study / STUDY_FILE).read_text("utf-8"))
        for trial in trials:
            if (path := now.trial_folder(trial).path).exists():
                path.rename(place / path.name)
        write_study(left)
    return place


def _named(study: Study, names: Sequence[str]) -> list[Trial]:
    """The trials that the names mean, in the order of the table. Raises RefusedError with every problem."""
    allowed = f"must be one of them, or a trial such as {study.trials[-1].name}"
    problems = [
        unknown("ROW", name, study, "rows", allowed) for name in dict.fromkeys(names) if not part(study, name, name)
    ]
    trials = [trial for trial in study.trials if trial.row in names or trial.name in names]
    problems += _left_without_base(study, trials)
    if problems:
        raise RefusedError(problems)
    return trials


def _left_without_base(study: Study, trials: list[Trial]) -> Iterator[Problem]:
    """A problem if nothing would be left, or only rows that cannot be compared with base."""
    left = [trial.row for trial in study.trials if trial not in trials]
    if trials and not left:
        whole = words.shell_line(["allelse", "rm", study.name, *placed(study.folder)])
        yield Problem("ROW", f"names every trial of {study.name}", f"`{whole}` removes it")
    elif any(trial.row == BASE for trial in trials) and BASE not in left:
        found = f"is base, with which {', '.join(dict.fromkeys(left))} are compared"
        yield Problem("ROW", found, "drop the other rows first")


def _without(study: Study, dropped: Sequence[Trial], command: Sequence[str]) -> Study:
    """The study's record without these trials, and without rows and seeds that no other trial has."""
    trials = tuple(trial for trial in study.trials if trial not in dropped)
    rows, seeds = {trial.row for trial in trials}, {trial.seed for trial in trials}
    asked = {
        "ts": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": words.shell_line(shown_words(command)),
        "dropped": [trial.name for trial in dropped],
        "saw_results": any(study.trial_folder(trial).finished_result(trial.key) for trial in study.trials),
    }
    return replace(
        study,
        trials=trials,
        rows=tuple(row for row in study.rows if row["row"] in rows),
        seeds=tuple(seed for seed in study.seeds if seed in seeds),
        cells={row: cells for row, cells in study.cells.items() if row in rows},
        asked=(*study.asked, asked),
    )


def _of_studies(runs: Path, names: Sequence[str]) -> list[Removal]:
    """What the names or folders of studies remove. Raises RefusedError with every name that is no study's."""
    known, meant = study_names(runs), {name: _plain(runs, name) for name in names}
    problems = [
        Problem("STUDY", f'is "{name}", but {runs} has no such study', studies_there(runs), nearest(name, known))
        for name, study in meant.items()
        if study not in known
    ]
    if problems:
        raise RefusedError(problems)
    folders = [runs / study for study in dict.fromkeys(meant.values())]
    return [Removal.of(folder, [folder], _trials_below(folder)) for folder in folders]


def _trials_below(study: Path) -> list[TrialFolder]:
    """Every folder of a study that may be a trial's, also if `study.json` is damaged."""
    return [TrialFolder(path, ANY) for path in sorted(study.iterdir()) if path.is_dir() and path.name[0] != "."]


def _plain(runs: Path, name: str) -> str:
    """The study's name, also of a path such as `runs/multi30k-half/`, which a shell completes."""
    path = Path(name).absolute()
    return path.name if "/" in name and path.parent.resolve() == runs.resolve() else name


def _remove(removal: Removal) -> Path:
    """Move the study; returns its place in the trash. Raises RefusedError if a trial is running, or if it syncs."""
    from tracking.mlflow.ledger import sync_lock  # loads what `--help` does not need

    try:
        syncs = sync_lock(removal.study).acquire(timeout=0)
    except Timeout:
        found = f"{removal.study.name} is being synced to MLflow by another process"
        raise RefusedError([Problem("STUDY", found, "wait for it")]) from None
    with _locked(removal.trials), syncs:
        place = _free_place(removal.study)
        place.parent.mkdir(exist_ok=True)
        removal.study.rename(place)
    return place
