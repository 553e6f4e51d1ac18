"""A journal read from its end: the newest reports, and how many are still to send. A long journal is never parsed."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import tracking.shapes as shapes
from tracking.card import Card
from tracking.damage import naming, read_whole
from tracking.files import parsed_line, read_lines
from tracking.former_names import current_line
from tracking.journal import JournalLine

WINDOW = 1 << 16
"""Bytes at the end of a journal that are looked at: some hundred reports."""


def newest_first(path: Path, card: Card, window: int = WINDOW) -> Iterator[JournalLine]:
    """The last reports, the newest first, as far as ``window`` bytes go. Raises DamagedFileError.

    Of a longer journal, damage before the window is not seen: ``TrialFolder.journal`` reads everything.
    """
    for line in reversed(_last_lines(path, window)):
        yield _current(path, line, card)


def check_end(path: Path, window: int = WINDOW) -> None:
    """Raises DamagedFileError if the end of a journal holds anything but objects, each on a line."""
    lines = _last_lines(path, window)
    text = b"\n".join(lines)
    whole = text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == len(lines) - 1
    if lines and not (whole and b"\0" not in text and _parses(path, lines[-1])):
        read_lines(path, shapes.journal_line)  # names the line


def reports_behind(path: Path, card: Card, after: int, everything: bool) -> int:
    """How many reports after step ``after`` can be sent: all, or those up to the newest checkpoint.

    Steps increase, so a few lines tell. Raises DamagedFileError if one of them is damaged.
    """
    newest = _last_lines(path, WINDOW)[-1:]
    if not newest or _step(path, newest[0]) <= after:
        return 0
    lines = (read_whole(path) or b"").split(b"\n")[:-1]
    step = partial(_step, path)
    end = len(lines) if everything else bisect_right(lines, _newest_checkpoint(path, lines, card), key=step)
    return max(0, end - bisect_right(lines, after, key=step))


def _newest_checkpoint(path: Path, lines: Sequence[bytes], card: Card) -> int:
    """Its step; -1 before the first. Checkpoints only grow, so the last one is the newest."""
    reports = (_current(path, line, card) for line in reversed(lines) if b'"checkpoint"' in line)
    return next((report.checkpoint for report in reports if report.checkpoint is not None), -1)


def _last_lines(path: Path, window: int) -> list[bytes]:
    """The complete lines that lie in the last ``window`` bytes; all lines if not one does."""
    try:
        with naming(path), path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - window))
            lines = file.read(window).split(b"\n")[:-1]  # what follows the last newline is unfinished
    except FileNotFoundError:
        return []
    if size <= window:
        return lines
    return lines[1:] or (read_whole(path) or b"").split(b"\n")[:-1]


def _current(path: Path, line: bytes, card: Card) -> JournalLine:
    return JournalLine.of(current_line(_report(path, line), card))


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
