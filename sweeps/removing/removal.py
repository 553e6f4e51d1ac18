"""What `drop` and `rm` move to the trash: which folders, how large, and what stays where it is."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import Timeout

from sweeps.planning.trial_lock import trial_lock
from sweeps.removing.trash import size
from sweeps.schema import Problem, RefusedError
from tracking.card import Card
from tracking.damage import unless_damaged
from tracking.mlflow.lag import sync_lock
from tracking.trial import TrialFolder

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
