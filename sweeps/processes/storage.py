"""Storage that is full, read-only or away for a while: what it refused is tried again. Who waits here does not hang."""

import errno
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event
from typing import TypeVar

from sweeps.processes.times import STORAGE_PAUSE_S, STORAGE_S
from tracking.attempts import has_ended, own_process

_signs = 0


def alive() -> None:
    """One more batch, sentence or file is done. Cheap enough for the innermost loop."""
    global _signs
    _signs += 1


def signs() -> int:
    """How often this process was ``alive`` so far."""
    return _signs


Result = TypeVar("Result")
FULL = {errno.ENOSPC: "free space there", errno.EDQUOT: "free space there, or raise the quota"}
READ_ONLY = {errno.EROFS: "make it writable"}
DISKS_AWAY = errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EHOSTDOWN, errno.ETIMEDOUT
HOSTS_AWAY = errno.ECONNREFUSED, errno.ECONNRESET, errno.ENETUNREACH, errno.EHOSTUNREACH
SERVER_FAULT: int = getattr(errno, "EREMOTEIO", errno.EIO)  # macOS lacks it
AWAY = dict.fromkeys((*DISKS_AWAY, *HOSTS_AWAY, SERVER_FAULT), "check that it can be reached")
BUSY = {errno.EBUSY: "wait until it is less busy"}
FIXES = FULL | READ_ONLY | AWAY | BUSY
"""What to do, by the number of the system's error. s3fs gives its faults such a number, too."""
IN_USE = errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY, errno.ESTALE
"""Errors of removing a folder in which a process has a file open (NFS keeps that file), or writes one."""
AWAY_ERRORS = {"ConnectionError", "HTTPClientError", "TimeoutError"}
"""Names of errors without a number: those of Python, botocore and requests."""


class StorageError(OSError):
    """A place that could not be written or read for ``STORAGE_S``, in one line."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.with_fix}"

    @property
    def with_fix(self) -> str:
        """Without the place."""
        return f"{self.strerror}; {FIXES[self.errno or 0]}"


def storage_fault(error: Exception, place: str) -> StorageError | None:
    """The same error with a place, if it is one that may pass. ``place`` is for errors that name none."""
    number = getattr(error, "errno", None)  # also of an error of ours that was made from the system's
    words = getattr(error, "strerror", None)
    if number is None and not AWAY_ERRORS.isdisjoint(kind.__name__ for kind in type(error).__mro__):
        number = errno.ETIMEDOUT
        words = str(error).partition("\n")[0]
    if number not in FIXES:
        return None
    target = getattr(error, "filename2", None)  # where a file was copied or renamed to
    return StorageError(number, words or os.strerror(number), target or getattr(error, "filename", None) or place)


@contextmanager
def at_place(place: Path) -> Iterator[None]:
    """A fault of storage that names no file, such as that of a file that is open, names this place."""
    try:
        yield
    except OSError as error:
        if error.errno in FIXES:
            error.filename = error.filename or str(place)
        raise


@contextmanager
def unless_in_use() -> Iterator[None]:
    """A removal of what may be gone already. What another process still has open stays until the next removal."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno not in IN_USE:
            raise


def patiently(act: Callable[[], Result], place: str, tell: Callable[[str], None], left: Event | None = None) -> Result:
    """What ``act`` returns; it can be repeated. ``tell`` gets a line when storage fails, and when it is back.

    Raises StorageError once ``STORAGE_S`` have passed since it first failed, or once ``left`` is set.
    """
    left = left or Event()
    since = math.inf
    failed = ""
    while True:
        try:
            found = act()
            break
        except Exception as error:
            fault = storage_fault(error, place)
            if fault is None:
                raise
            since = min(since, time.monotonic())
            if time.monotonic() - since >= STORAGE_S or left.is_set():
                raise fault from error
        if fault.filename != failed:
            failed = fault.filename
            tell(f"{failed}: {fault.strerror}; trying again for {STORAGE_S / 60:g} min")
        alive()
        left.wait(STORAGE_PAUSE_S)
    if failed:
        tell(f"{failed} can be used again")
    return found


PREFIX = "allelse-"


@contextmanager
def own_temporary() -> Iterator[Path]:
    """A folder named after the birth of this process. Within it, a fault of storage that names no file is its own."""
    _remove_dead()
    prefix = f"{PREFIX}{own_process().birth}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, at_place(Path(folder).parent):
        yield Path(folder)


@cache
def _remove_dead() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if has_ended(folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
