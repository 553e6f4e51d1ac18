"""One process at a time writes into a trial's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.planning.naming import by_name, command, placed
from sweeps.schema import Problem, RefusedError
from tracking.activity.runners import holder_of
from tracking.trial import TrialFolder

UNKNOWN_HOLDER = "another process"
"""One without a record: it does not run the study, such as `allelse evaluate`."""


@contextmanager
def trial_lock(folder: TrialFolder, allowed: str | None = None) -> Iterator[None]:
    """Keep other processes from writing the trial's folder. The lock ends with this process,
    however it ends.

    Raises RefusedError if another process holds the lock, with ``allowed`` or with what follows and
    stops it.
    """
    lock = FileLock(folder.path.parent / ".locks" / folder.path.name, timeout=0)
    try:
        held = lock.acquire()
    except Timeout:
        holder = holder_of(folder.path.parent, folder.path.name)
        fix = (allowed or _steered(folder.path.parent)) if holder else "wait for it"
        raise RefusedError(
            [Problem(folder.path.name, f"is being run by {holder or UNKNOWN_HOLDER}", fix)]
        ) from None
    with held:
        yield


def _steered(study: Path) -> str:
    """How to follow and to stop what runs."""
    status, stop = (command(verb, by_name(study), *placed(study)) for verb in ("status", "stop"))
    return f"`{status} --watch` follows it, `{stop}` stops all that its process runs"
