"""What `drop` and `rm` move to the trash: which folders, how large, and what stays where it is."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.planning.naming import placed, studies_there, study_names
from sweeps.planning.trial_lock import trial_lock
from sweeps.removing.trash import free_place, size
from sweeps.schema import Problem, RefusedError, nearest
from tracking.card import Card
from tracking.damage import unless_damaged
from tracking.files import write_atomic
from tracking.mlflow.lag import sync_lock
from tracking.statistics.rows import BASE
from tracking.study import STUDY_FILE, Study, Trial, read_study, write_study
from tracking.trial import TrialFolder
from tracking.uri import without_password
from tracking.words import shell_line

ANY = Card("any", 1, ())
"""Of trials whose task does not matter: a folder is moved whatever its files hold."""


@dataclass(frozen=True)
class Removal:
    """Folders to move, the trials in them, and the folder of the study."""

    study: Path
    folders: tuple[Path, ...]
    trials: tuple[TrialFolder, ...]

    def sizes(self) -> dict[str, int]:
        """The bytes of each folder that exists, by name."""
        return {folder.name: size(folder) for folder in self.folders if folder.exists()}

    def left_elsewhere(self) -> list[str]:
        """The addresses of checkpoints outside the trials' folders, which stay there."""
        found = []
        for trial in self.trials:
            config = unless_damaged(trial.config, None) or {}
            if elsewhere := config.get("paths", {}).get("checkpoints"):
                found.append(trial.checkpoints_url(elsewhere))
        return found


def trials_below(study: Path) -> tuple[TrialFolder, ...]:
    """Every folder of a study that may be a trial's, also if `study.json` is damaged."""
    return tuple(TrialFolder(path, ANY) for path in sorted(study.iterdir()) if path.is_dir() and path.name[0] != ".")


def refuse_running(trials: Sequence[TrialFolder]) -> None:
    """Raises RefusedError if another process runs one of the trials. Leaves no file."""
    begun = [trial for trial in trials if _lock_file(trial).exists()]
    with locked(begun):
        pass


@contextmanager
def locked(trials: Sequence[TrialFolder]) -> Iterator[None]:
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


@contextmanager
def not_syncing(study: Path) -> Iterator[None]:
    """Keep `allelse sync` from writing to the study's folder. Raises RefusedError if it does now."""
    try:
        lock = sync_lock(study).acquire(timeout=0)
    except Timeout:
        found = f"{study.name} is being synced to MLflow by another process"
        raise RefusedError([Problem("STUDY", found, "wait for it")]) from None
    with lock:
        yield


def _lock_file(trial: TrialFolder) -> Path:
    return trial.path.parent / ".locks" / trial.path.name


def dropping(study: Study, names: Sequence[str]) -> Removal:
    """What these names of rows and trials remove. Raises RefusedError with every problem."""
    trials = _named(study, names)
    folders = [study.trial_folder(trial) for trial in trials]
    return Removal(study.folder, tuple(folder.path for folder in folders), tuple(folders))


def drop(study: Study, names: Sequence[str], command: Sequence[str]) -> Path:
    """Move them; returns their folder in the trash, with the former `study.json`. Raises RefusedError.

    The folders move first: if the process dies in between, the command can be repeated.
    """
    with locked(dropping(study, names).trials), FileLock(study.folder / ".locks" / "study"):
        now = read_study(study.folder)  # another process may have added trials
        trials = _named(now, names)
        place = free_place(now.folder.parent, now.name)
        write_atomic(place / STUDY_FILE, (now.folder / STUDY_FILE).read_text("utf-8"))
        for trial in trials:
            if (path := now.trial_folder(trial).path).exists():
                path.rename(place / path.name)
        write_study(_without(now, trials, command))
    return place


def _named(study: Study, names: Sequence[str]) -> list[Trial]:
    """The trials that the names mean, in the order of the table."""
    known = list(dict.fromkeys(name for trial in study.trials for name in (trial.row, trial.name)))
    problems = [_unknown(study, name, known) for name in dict.fromkeys(names) if name not in known]
    trials = [trial for trial in study.trials if trial.row in names or trial.name in names]
    problems += _left_without_base(study, trials)
    if problems:
        raise RefusedError(problems)
    return trials


def _unknown(study: Study, name: str, known: list[str]) -> Problem:
    rows = list(dict.fromkeys(trial.row for trial in study.trials))
    found = f'is "{name}", but the rows of {study.name} are {", ".join(rows)}'
    near = nearest(name, known)
    return Problem("ROW", found, f"must be one of them, or a trial such as {study.trials[-1].name}", near)


def _left_without_base(study: Study, trials: list[Trial]) -> Iterator[Problem]:
    """A problem if nothing would be left, or only rows that cannot be compared with base."""
    left = [trial.row for trial in study.trials if trial not in trials]
    if trials and not left:
        whole = shell_line(["allelse", "rm", study.name, *placed(study.folder)])
        yield Problem("ROW", f"names every trial of {study.name}", f"`{whole}` removes it")
    elif any(trial.row == BASE for trial in trials) and BASE not in left:
        found = f"is base, with which {', '.join(dict.fromkeys(left))} are compared"
        yield Problem("ROW", found, "drop the other rows first")


def _without(study: Study, dropped: Sequence[Trial], command: Sequence[str]) -> Study:
    """The study's record without these trials, and without rows and seeds that no other trial has."""
    trials = tuple(trial for trial in study.trials if trial not in dropped)
    rows, seeds = {trial.row for trial in trials}, {trial.seed for trial in trials}
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return replace(
        study,
        trials=trials,
        rows=tuple(row for row in study.rows if row["row"] in rows),
        seeds=tuple(seed for seed in study.seeds if seed in seeds),
        cells={row: cells for row, cells in study.cells.items() if row in rows},
        asked=(*study.asked, {"ts": when, "command": shell_line(map(without_password, command))}),
    )


def removing(runs: Path, names: Sequence[str]) -> list[Removal]:
    """What the names or folders of studies remove. Raises RefusedError with every name that is no study's."""
    known = study_names(runs)
    meant = {name: _plain(runs, name) for name in names}
    problems = [_unknown_study(runs, name, known) for name, study in meant.items() if study not in known]
    if problems:
        raise RefusedError(problems)
    folders = [runs / study for study in dict.fromkeys(meant.values())]
    return [Removal(folder, (folder,), trials_below(folder)) for folder in folders]


def remove(removal: Removal) -> Path:
    """Move the study; returns its place in the trash. Raises RefusedError if one of its trials is running."""
    folder = removal.study
    with locked(removal.trials), not_syncing(folder):
        place = free_place(folder.parent, folder.name)
        place.parent.mkdir(exist_ok=True)
        folder.rename(place)
    return place


def _plain(runs: Path, name: str) -> str:
    """The study's name, also of a path such as `runs/multi30k-half/`, which a shell completes."""
    path = Path(name).absolute()
    return path.name if "/" in name and path.parent.resolve() == runs.resolve() else name


def _unknown_study(runs: Path, name: str, known: list[str]) -> Problem:
    return Problem("STUDY", f'is "{name}", but {runs} has no such study', studies_there(runs), nearest(name, known))
