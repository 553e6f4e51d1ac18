"""A trial's ``log.txt``: its attempts, and what its processes printed.

``log.old.txt`` has earlier lines.
"""

import codecs
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from tracking.uri import without_password

WHOLE_LOG = 2 << 20
"""Bytes of a full log, which then replaces the older one."""


def utc() -> str:
    """Now, such as 2026-01-31 12:00:00 UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())


def append_log(path: Path, text: str) -> None:
    """Append, without passwords. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(without_password(text))
        size = file.tell()
    if size > WHOLE_LOG:
        path.replace(_older(path))
        path.touch()


def marked(text: str, rank: int) -> str:
    """The lines, with the rank in front unless it is zero."""
    if rank == 0:
        return text
    return "".join(f"[{rank}] {line}" for line in text.splitlines(keepends=True))


class FollowedLog:
    """The log at ``path``, beginning with the older one. Reads a renamed file to its end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[bytes] | None = None
        self._read: os.stat_result | None = None  # of the open file
        # a character may be read in two parts
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def more(self) -> str:
        """What was added since the last call."""
        content = self._unread()
        with suppress(OSError):  # missing, or its storage is away: the next call tries again
            stat = self._path.stat()
            if self._read is None or not os.path.samestat(stat, self._read):
                content += self._unread() if self._file else self._older_log()
                self.close()
                self._file = self._path.open("rb")
                self._read = os.fstat(self._file.fileno())
                content += self._unread()
        return self._decoder.decode(content)

    def _older_log(self) -> bytes:
        older = _older(self._path)
        return older.read_bytes() if older.exists() else b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _unread(self) -> bytes:
        with suppress(OSError):  # another machine replaced the file
            return b"" if self._file is None else self._file.read()
        return b""


def _older(path: Path) -> Path:
    return path.with_name("log.old.txt")
