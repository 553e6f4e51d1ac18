"""Lines of a file, a pipe or a keyboard, as they arrive."""

import os
import select
from collections.abc import Iterator

PAUSE_S = 0.05  # lines that arrive within this time share a window
LOOK_UP_S = 0.5  # so that Ctrl-C just before a blocking call does not wait for the next line


def arriving(descriptor: int) -> Iterator[bytes]:
    """What can be read from a file descriptor; an empty chunk where nothing more arrives for a moment."""
    while True:
        if not _readable(descriptor, PAUSE_S):
            yield b""
        while not _readable(descriptor, LOOK_UP_S):
            pass
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return
        yield chunk


def windows(chunks: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    """The lines without their ends: ``size`` at once, or fewer at an empty chunk.

    A line ends with a line feed, or a carriage return and a line feed. The last line needs no end.
    """
    waiting: list[bytes] = []
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        waiting += [line.removesuffix(b"\r") for line in lines]
        while len(waiting) >= size or (waiting and not chunk):
            yield waiting[:size]
            waiting = waiting[size:]
    if rest:
        waiting.append(rest.removesuffix(b"\r"))
    if waiting:
        yield waiting


def decode(lines: list[bytes]) -> list[str]:
    """The lines before the first line that is not UTF-8."""
    decoded: list[str] = []
    for line in lines:
        try:
            decoded.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            break
    return decoded


def _readable(descriptor: int, seconds: float) -> bool:
    """Whether a read would return within this time, as it also does at the end of a file."""
    return bool(select.select([descriptor], [], [], seconds)[0])
