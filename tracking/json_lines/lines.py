"""Files of JSON lines: append a line, replace the last one, and read lines one by one.

A line is parsed when it is asked for, so the end of a long journal is read cheaply.
"""

import errno
import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tracking.files import (
    DamagedFileError,
    Form,
    misfit,
    read_whole,
    reading,
    sync_folder,
    unless_damaged,
    writing,
)

NEWEST = 1 << 12
"""Bytes at the end of a file that hold its last line, as a rule."""


def append_line(path: Path, line: str, fsync: bool = False) -> None:
    """Append `line` and a newline in one write. First removes an unfinished line left by a crash.

    Raises OSError. If the disk is full, a partly written line counts as unfinished.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _drop_torn_tail(descriptor)
            _write_whole(descriptor, line.encode() + b"\n")
            if fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if fsync and is_new:
            sync_folder(path.parent)


def replace_last_line(path: Path, line: str) -> None:
    """Replace the last complete line; the new one is on disk when this returns.

    A reader may see the file without its last line, or with a torn one, as after a crash, but never
    a mixture of both. Raises OSError; the old line stays if the new one does not fit.
    """
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _drop_torn_tail(descriptor)
            end = os.fstat(descriptor).st_size
            start = _line_start(descriptor, end - 1)
            old_line = os.pread(descriptor, end - start, start)
            os.ftruncate(descriptor, start)
            try:
                _write_whole(descriptor, line.encode() + b"\n")
            except OSError:
                os.ftruncate(descriptor, start)
                os.write(descriptor, old_line)
                raise
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Lines:
    """The complete lines of a file, or those in its last ``window`` bytes; none without a file.

    A last line without a newline was torn by a crash and is left out. Reading a line that is not
    JSON of this ``form`` raises DamagedFileError with the file and the line: a crash can't cause
    that.
    """

    def __init__(self, path: Path, form: Form = dict, window: int | None = None) -> None:
        self.path = path
        self._form = form
        self._window = window
        self._content = _read(path, window)
        *self._raw, tail = self._content.split(b"\n")
        self.torn = bool(tail)  # whether a part of a line follows
        self.is_missing = not self._content and not path.exists()

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, index: int) -> dict[str, Any]:
        try:
            value: dict[str, Any] = json.loads(self._raw[index].decode())
        except (ValueError, RecursionError) as error:
            raise self._damage(index, f"not a JSON line: {error}") from None
        fault = misfit(value, self._form)
        if fault:
            raise self._damage(index, fault)
        return value

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self._raw)))

    def raw(self, index: int) -> bytes:
        """A line as it stands in the file, without its newline."""
        return self._raw[index]

    def good(self) -> list[dict[str, Any]]:
        """The lines without a fault."""
        lines = []
        for index in range(len(self)):
            line = unless_damaged(partial(self.__getitem__, index), None)
            if line is not None:
                lines.append(line)
        return lines

    def holding(self, text: str) -> Sequence[int]:
        """The indices of the lines with this text."""
        wanted = text.encode()
        if wanted not in self._content:
            return []
        return [index for index, line in enumerate(self._raw) if wanted in line]

    def _damage(self, index: int, cause: str) -> DamagedFileError:
        """Its line counts from 1, from the beginning of the file.

        A negative index is from the end.
        """
        count = len(self._raw)
        line = range(count)[index] + 1
        if self._window is not None:
            line += (read_whole(self.path) or b"").count(b"\n") - count
        return DamagedFileError(self.path, cause, line)


def _drop_torn_tail(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    os.ftruncate(descriptor, _line_start(descriptor, size))


def _line_start(descriptor: int, end: int) -> int:
    """The offset behind the last newline before `end`, searching backward."""
    while end > 0:
        start = max(0, end - NEWEST)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _write_whole(descriptor: int, data: bytes) -> None:
    """In one write. Raises OSError if only a part fits."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _read(path: Path, window: int | None) -> bytes:
    """The last ``window`` bytes from a line's beginning; more if they hold no whole line."""
    if window is None:
        return read_whole(path) or b""
    try:
        with reading(path), path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - window))
            content = file.read(window)
    except FileNotFoundError:
        return read_whole(path) or b""
    if size <= window:
        return content
    lines = content.partition(b"\n")[2]
    return lines if b"\n" in lines else _read(path, 16 * window)
