"""A trial's ``log.txt``: what its processes printed, written and followed. Bounded: the oldest lines go first."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracking.files import write_atomic
from tracking.uri import without_password

LONGEST = 4 << 20
"""Bytes of a log; then its older half is dropped."""
DROPPED = "(earlier lines were dropped)\n"
RECOGNIZED = 1 << 12
"""Bytes by which another file is recognized if the one before cannot be read any longer, as on NFS."""


def begin_log(path: Path, attempt: int, host: str) -> None:
    """A line that separates attempts."""
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
    append_log(path, f"--- attempt {attempt}, {when}, started from {host}\n")


def append_log(path: Path, text: str) -> None:
    """Append, without passwords. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(without_password(text))
        size = file.tell()
    if size > LONGEST:
        _shorten(path)


def marked(text: str, rank: int) -> str:
    """The lines of rank zero as they are, those of others with their rank."""
    return text if rank == 0 else "".join(f"[{rank}] {line}" for line in text.splitlines(keepends=True))


def _shortened(file: IO[bytes]) -> bytes:
    """What a log becomes once its older half is dropped. Raises OSError if it is shorter than that half."""
    file.seek(-LONGEST // 2, os.SEEK_END)
    return DROPPED.encode() + file.read().partition(b"\n")[2]


def _shorten(path: Path) -> None:
    with path.open("rb") as file:
        write_atomic(path, _shortened(file).decode("utf-8", "replace"))


class FollowedLog:
    """The log at ``path``. Another file takes its place when its older half is dropped, so the old one stays open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._shown = b""  # the end of what was read

    def more(self) -> str:
        """What was added since the last call."""
        found = self._rest()
        if self._was_replaced():
            with suppress(OSError):  # replaced once more: the next call opens that one
                self._open_again(found)
            found += self._rest()
        self._shown = self._end_of(found)
        return found.decode("utf-8", "replace")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _rest(self) -> bytes:
        with suppress(OSError):  # of a file that was replaced from another machine
            return b"" if self._file is None else self._file.read()
        return b""

    def _was_replaced(self) -> bool:
        try:
            now = self._path.stat()
        except OSError:  # missing, or its storage is away: it is looked at again
            return False
        with suppress(OSError):  # of a file that was replaced from another machine
            return self._file is None or not os.path.samestat(now, os.fstat(self._file.fileno()))
        return True

    def _open_again(self, found: bytes) -> None:
        """Open the file that is there now, behind what the one before has in common with it."""
        before, self._file = self._file, self._path.open("rb")
        if before is None:
            return
        with before, suppress(OSError):
            known = _shortened(before)
            if self._file.read(len(known)) == known:
                return
        self._file.seek(0)
        shown = self._end_of(found)
        at = self._file.read().find(shown)
        self._file.seek(at + len(shown) if at >= 0 else 0)

    def _end_of(self, found: bytes) -> bytes:
        """Of all that was read, ``found`` the last."""
        return (self._shown + found)[-RECOGNIZED:]
