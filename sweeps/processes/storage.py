"""Storage that is full, read-only or away for a while: failed calls are repeated. Waiting here
gives signs of life."""

import errno
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event, Thread
from typing import TypeVar

from sweeps.processes.times import PLACE_ANSWER_S, STORAGE_PAUSE_S, STORAGE_S
from tracking.attempts import has_ended, own_process

_signs = 0


def give_sign_of_life() -> None:
    """Count that this process has done a batch, sentence or file. Cheap enough for the innermost
    loop."""
    global _signs
    _signs += 1


def signs_of_life() -> int:
    """How many this process has given so far."""
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
"""Errors of removing a folder in which a process has a file open (NFS keeps that file), or writes
one."""
AWAY_ERRORS = {"ConnectionError", "HTTPClientError", "TimeoutError"}
"""Names of errors without a number: those of Python, botocore and requests."""


class StorageError(OSError):
    """A path that could not be written or read for ``STORAGE_S``, in one line."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.with_fix}"

    @property
    def with_fix(self) -> str:
        """The fault and its fix, without the path."""
        return f"{self.strerror}; {FIXES[self.errno or 0]}"


def storage_fault(error: Exception, path: str) -> StorageError | None:
    """The error with its path as a StorageError, if it may pass; else None. ``path`` is for errors
    that name none."""
    # also of an error of ours that was made from the system's
    number = getattr(error, "errno", None)
    words = getattr(error, "strerror", None)
    error_names = {error_type.__name__ for error_type in type(error).__mro__}
    if number is None and not AWAY_ERRORS.isdisjoint(error_names):
        number = errno.ETIMEDOUT
        words = str(error).partition("\n")[0]
    if number not in FIXES:
        return None
    target = getattr(error, "filename2", None)  # where a file was copied or renamed to
    return StorageError(
        number, words or os.strerror(number), target or getattr(error, "filename", None) or path
    )


@contextmanager
def at_place(path: Path) -> Iterator[None]:
    """A fault of storage that names no file, such as that of a file that is open, names this
    place."""
    try:
        yield
    except OSError as error:
        if error.errno in FIXES:
            error.filename = error.filename or str(path)
        raise


@contextmanager
def unless_in_use() -> Iterator[None]:
    """Ignore errors of removing a path that is gone, or that a process still has open: the next
    removal gets it."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if error.errno not in IN_USE:
            raise


def patiently(
    act: Callable[[], Result], path: str, tell: Callable[[str], None], closed: Event | None = None
) -> Result:
    """Call ``act`` until it succeeds, and return its result. ``tell`` gets a line when storage
    fails and recovers.

    Raises StorageError once ``STORAGE_S`` have passed since it first failed, or once ``closed`` is
    set.
    """
    closed = closed or Event()
    since = math.inf
    failed = ""
    while True:
        try:
            result = act()
            break
        except Exception as error:
            fault = storage_fault(error, path)
            if fault is None:
                raise
            since = min(since, time.monotonic())
            if time.monotonic() - since >= STORAGE_S or closed.is_set():
                raise fault from error
        if fault.filename != failed:
            failed = fault.filename
            tell(f"{failed}: {fault.strerror}; trying again for {STORAGE_S / 60:g} min")
        give_sign_of_life()
        closed.wait(STORAGE_PAUSE_S)
    if failed:
        tell(f"{failed} can be used again")
    return result


def answer_in_time(act: Callable[[], Result]) -> Result:
    """What ``act`` returns, which runs in a thread that may hang without effect.

    Raises what ``act`` raises, and TimeoutError after ``PLACE_ANSWER_S``.
    """
    answer = Future[Result]()

    def run() -> None:
        try:
            answer.set_result(act())
        except Exception as error:
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return answer.result(PLACE_ANSWER_S)
    except TimeoutError:
        if answer.done():
            raise
        raise TimeoutError(f"it did not answer within {PLACE_ANSWER_S:g} s") from None


def user_cache() -> Path:
    """``allelse`` in the user's cache folder, or in the temporary one for a user without a home."""
    try:
        home = Path.home()
    except RuntimeError:  # in a container, a user may have none
        home = Path(tempfile.gettempdir())
    folder = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(folder).absolute() / "allelse"


PREFIX = "allelse-"


@contextmanager
def own_temporary() -> Iterator[Path]:
    """A folder named after the birth of this process. Within it, a fault of storage that names no
    file is its own."""
    _remove_dead()
    prefix = f"{PREFIX}{own_process().birth}-"
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, at_place(Path(folder).parent):
        yield Path(folder)


@cache
def _remove_dead() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        if has_ended(folder.name.removeprefix(PREFIX).rpartition("-")[0]):
            shutil.rmtree(folder, ignore_errors=True)
