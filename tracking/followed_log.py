"""A trial's ``log.txt`` read while it grows, each line once."""

import os
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracking.log_file import shortened

RECOGNIZED = 1 << 12
"""Bytes by which another file is recognized if the one before cannot be read any longer, as on NFS."""


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
            known = shortened(before)
            if self._file.read(len(known)) == known:
                return
        self._file.seek(0)
        shown = self._end_of(found)
        at = self._file.read().find(shown)
        self._file.seek(at + len(shown) if at >= 0 else 0)

    def _end_of(self, found: bytes) -> bytes:
        """Of all that was read, ``found`` the last."""
        return (self._shown + found)[-RECOGNIZED:]
