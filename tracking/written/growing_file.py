"""A file that a program appends to, or writes again."""

import os
from dataclasses import dataclass
from pathlib import Path

from tracking.written.file_stamp import FileStamp

LARGEST = 64 << 20
"""Bytes that are read at once. A file that grows by more is data rather than metrics."""
REMEMBERED = 256
"""Bytes before the place of reading. If they differ later, the file was written again."""


class UnreadError(ValueError):
    """A file, or a part of it, that can't be read. The message says why, without its name."""


@dataclass(frozen=True)
class Growth:
    """What a file holds behind the place of reading. ``is_rewritten``: from its beginning, since
    the file was written again."""

    content: bytes
    is_rewritten: bool


class GrowingFile:
    """Reads a file as it grows. The reader says by ``advance`` how much it has used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stamp = FileStamp(path)
        self._inode = 0
        self._offset = 0
        self._bytes_before = b""
        self._is_complete = False

    def growth(self) -> Growth | None:
        """None if the file is as it was, or not there. Raises UnreadError for one that grew too
        much, and OSError."""
        status = self._stamp.changed()
        if status is None:
            return None
        with self.path.open("rb") as file:
            is_rewritten = self._is_rewritten(file.fileno(), status)
            if is_rewritten:
                self._offset = 0
                self._bytes_before = b""
            self._inode = status.st_ino
            if status.st_size - self._offset > LARGEST:
                raise UnreadError(f"grew by more than {LARGEST >> 20} MB at once")
            file.seek(self._offset)
            content = file.read(LARGEST)
        if self._is_complete and content and not content.endswith(b"\n"):
            content += b"\n"
        return Growth(content, is_rewritten)

    def advance(self, used: bytes) -> None:
        """The next growth begins behind these bytes, with which the last one began."""
        self._offset += len(used)
        self._bytes_before = (self._bytes_before + used)[-REMEMBERED:]

    def complete(self) -> None:
        """Nothing more will be written, so the last line is whole without a newline, too."""
        self._is_complete = True
        self._stamp.forget()

    def skip_to_end(self) -> None:
        """Read only what comes from now on."""
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as file:
                self._inode = os.fstat(file.fileno()).st_ino
                self._offset = size
                self._bytes_before = os.pread(
                    file.fileno(), min(REMEMBERED, size), max(0, size - REMEMBERED)
                )
        except OSError:  # it is not there yet, or it is said when it is read
            return

    def _is_rewritten(self, descriptor: int, status: os.stat_result) -> bool:
        if not self._inode:
            return False
        if status.st_ino != self._inode or status.st_size < self._offset:
            return True
        length = len(self._bytes_before)
        return os.pread(descriptor, length, self._offset - length) != self._bytes_before


def whole_lines(content: bytes) -> bytes:
    """Up to the last newline. The rest is still being written."""
    return content[: content.rfind(b"\n") + 1]
