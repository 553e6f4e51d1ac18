"""One process at a time prepares a text, and a failure leaves neither a lock nor an empty folder."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sweeps.processes.patient_lock import patient_lock


@contextmanager
def new_folders(folder: Path) -> Iterator[None]:
    """After a failure, remove those of ``folder`` and the folders above it that did not exist and are empty."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        yield
    except BaseException:
        for each in new:
            with suppress(OSError):  # not empty, or never made
                each.rmdir()
        raise


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Lock out other processes that prepare ``target``. A failure leaves no lock behind."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lock = Path(f"{target}.lock")
    with patient_lock(lock):
        try:
            yield
        except BaseException:
            lock.unlink(missing_ok=True)
            raise
