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
    folder: TrialFolder, allowed: str = "`ablate status --watch` follows it, `ablate stop` stops it"
) -> Iterator[None]:
    """Keep other processes from writing the trial's folder. The lock ends with this process, however it ends.

    Raises RefusedError with ``allowed`` if another process holds the lock.
    """
    lock = FileLock(folder.path.parent / ".locks" / folder.path.name, timeout=0)
    Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
    try:
        held = lock.acquire()
    except Timeout:
        holder = holder_of(folder.path.parent / ".locks", folder.path.name)
        raise RefusedError([Problem(folder.path.name, f"is being run by {holder}", allowed)]) from None
    with held:
        yield
