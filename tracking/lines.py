"""Files of JSON lines. A line is parsed when it is asked for, so the end of a long journal is read cheaply."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tracking.damage import DamagedFileError, naming, read_whole

Check = Callable[[dict[str, Any]], str | None]
"""The fault of a line, or None."""
NEWEST = 1 << 12
"""Bytes at the end of a file that hold its last line, as a rule."""


class Lines:
    """The complete lines of a file, as many as lie in its last ``window`` bytes; none without a file.

    A last line without its newline was torn by a crash and is left out. Reading a line raises DamagedFileError with
    the file and the line, unless it is a JSON object that passes ``check``: no crash of ours can cause that.
    """

    def __init__(self, path: Path, check: Check = lambda line: None, window: int | None = None) -> None:
        self.path, self._check, self._window = path, check, window
        self._content = _read(path, window)
        *self._raw, rest = self._content.split(b"\n")
        self.torn = bool(rest)  # whether a part of a line follows them

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, place: int) -> dict[str, Any]:
        found = self.found(place)
        if isinstance(found, DamagedFileError):
            raise found
        return found

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.__getitem__, range(len(self._raw)))

    def found(self, place: int) -> dict[str, Any] | DamagedFileError:
        """The object of a line, or its fault."""
        try:
            value = json.loads(self._raw[place].decode())
        except (ValueError, RecursionError) as error:
            return self._fault(place, f"not a JSON line: {error}")
        if not isinstance(value, dict):
            return self._fault(place, f"must be a JSON object, but is {type(value).__name__}")
        wrong = self._check(value)
        return self._fault(place, wrong) if wrong else value

    def holding(self, text: str) -> Sequence[int]:
        """The places of the lines with this text, which most files have in no line, or once in each."""
        wanted = text.encode()
        count = self._content.count(wanted)
        if count in (0, len(self)):
            return range(count)
        return [place for place, line in enumerate(self._raw) if wanted in line]

    def _fault(self, place: int, cause: str) -> DamagedFileError:
        """Lines count from 1, and from the beginning of the whole file."""
        before = 0 if self._window is None else (read_whole(self.path) or b"").count(b"\n") - len(self._raw)
        return DamagedFileError(self.path, cause, before + range(len(self._raw))[place] + 1)


def _read(path: Path, window: int | None) -> bytes:
    """From the beginning of a line on: of the last ``window`` bytes, or of more, if no complete line lies in them."""
    if window is None:
        return read_whole(path) or b""
    try:
        with naming(path), path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - window))
            content = file.read(window)
    except FileNotFoundError:
        return b""
    if size <= window:
        return content
    lines = content.partition(b"\n")[2]
    return lines if b"\n" in lines else _read(path, 16 * window)
