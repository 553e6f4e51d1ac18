"""One process at a time writes into a trial's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.planning.holders import holder_of
from tracking.trial_folder import TrialFolder
from transformer.schema import Problem, RefusedError


@contextmanager
def trial_lock(
    folder: TrialFolder, key: str = "sweep.name", allowed: str = "wait for it, or choose another sweep.name"
) -> Iterator[None]:
    """Keep other processes from writing the trial's folder. The lock ends with this process, however it ends.

    Raises RefusedError with ``key`` and ``allowed`` if another process holds the lock.
    """
    lock = FileLock(folder.path.parent / ".locks" / folder.path.name, timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        held = lock.acquire()
    except Timeout:
        found = f"{folder.path.name} is being run by {holder_of(folder.path.parent / '.locks', folder.path.name)}"
        raise RefusedError([Problem(key, found, allowed)]) from None
    with held:
        yield
