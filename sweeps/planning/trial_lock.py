"""One process at a time writes into a trial's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from tracking.trial_folder import TrialFolder
from transformer.schema import Problem, RefusedError


@contextmanager
def trial_lock(
    folder: TrialFolder, key: str = "sweep.name", allowed: str = "wait for it, or give this study another name"
) -> Iterator[None]:
    """No other process writes the trial's folder meanwhile; the lock goes with this process, however it ends.

    Raises RefusedError, in these words, if another process holds it.
    """
    lock = FileLock(folder.path.parent / ".locks" / folder.path.name, timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        held = lock.acquire()
    except Timeout:
        found = f"{folder.path.name} is being run by another process"
        raise RefusedError([Problem(key, found, allowed)]) from None
    with held:
        yield
