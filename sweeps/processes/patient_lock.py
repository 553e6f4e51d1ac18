"""A lock that another process may hold for long. Who waits for it gives signs of life: it does not hang."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.processes.alive import alive

LOOK_S = 5.0
"""Between two signs of life of who waits: far below any `sweep.stall_minutes`."""


@contextmanager
def patient_lock(path: Path) -> Iterator[None]:
    """Hold the lock at ``path`` as soon as nobody else does."""
    lock = FileLock(path)
    while not lock.is_locked:
        try:
            lock.acquire(timeout=LOOK_S)
        except Timeout:
            alive()
    try:
        yield
    finally:
        lock.release()
