"""A journal read from its end: the newest reports, and how many are still to send. A long journal is never parsed."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import tracking.shapes as shapes
from tracking.damage import naming, read_whole
from tracking.files import parsed_line, read_lines
from tracking.journal import JournalLine

WINDOW = 1 << 16
"""Bytes at the end of a journal that are looked at: some hundred reports."""
SHORT = 1 << 12
"""The same for the newest report alone."""


@dataclass(frozen=True)
class JournalEnd:
    """The last complete lines of a journal, as far as a window of bytes goes.

    Damage before them is not seen: ``TrialFolder.journal`` reads everything.
    """

    path: Path
    lines: tuple[bytes, ...]

    def newest_first(self, holding: str = "") -> Iterator[JournalLine]:
        """The reports whose line has the text ``holding``, the newest first. Raises DamagedFileError."""
        text = holding.encode()
        for line in reversed(self.lines):
            if text in line:
                yield JournalLine.of(_report(self.path, line))

    def check(self) -> None:
        """Raises DamagedFileError if the end holds anything but objects, each on a line."""
        text = b"\n".join(self.lines)
        whole = text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == len(self.lines) - 1
        if self.lines and not (whole and b"\0" not in text and _parses(self.path, self.lines[-1])):
            read_lines(self.path, shapes.journal_line)  # names the line


def read_end(path: Path, window: int = WINDOW) -> JournalEnd:
    """The end of a journal; without lines if there is none. Raises DamagedFileError."""
    return JournalEnd(path, tuple(_last_lines(path, window)))


def reports_behind(path: Path, after: int, everything: bool) -> int:
    """How many reports after step ``after`` can be sent: all, or those up to the newest checkpoint.

    Steps increase, so a few lines tell. Raises DamagedFileError if one of them is damaged.
    """
    newest = next(read_end(path, SHORT).newest_first(), None)
    if newest is None or newest.step <= after:
        return 0
    lines = (read_whole(path) or b"").split(b"\n")[:-1]
    step = partial(_step, path)
    end = len(lines) if everything else bisect_right(lines, _newest_checkpoint(path, lines), key=step)
    start = bisect_right(lines, after, key=step) if after >= 0 else 0
    return max(0, end - start)


def _newest_checkpoint(path: Path, lines: Sequence[bytes]) -> int:
    """Its step; -1 before the first. Checkpoints only grow, so the last one is the newest."""
    reports = (JournalLine.of(_report(path, line)) for line in reversed(lines) if b'"checkpoint"' in line)
    return next((report.checkpoint for report in reports if report.checkpoint is not None), -1)


def _last_lines(path: Path, window: int) -> list[bytes]:
    """The complete lines that lie in the last ``window`` bytes; if not one does, of more bytes."""
    try:
        with naming(path), path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - window))
            lines = file.read(window).split(b"\n")[:-1]  # what follows the last newline is unfinished
    except FileNotFoundError:
        return []
    if size <= window:
        return lines
    return lines[1:] or _last_lines(path, 16 * window)


def _step(path: Path, line: bytes) -> int:
    return int(_report(path, line)["step"])


def _parses(path: Path, line: bytes) -> bool:
    return isinstance(parsed_line(path, 0, line, shapes.journal_line), dict)


def _report(path: Path, line: bytes) -> dict[str, Any]:
    """The line as JSON. Raises DamagedFileError, which names the line."""
    found = parsed_line(path, 0, line, shapes.journal_line)
    if isinstance(found, dict):
        return found
    read_lines(path, shapes.journal_line)  # names the line
    raise found
