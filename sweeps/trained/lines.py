"""Lines of a file, a pipe or a keyboard, as they come."""

import os
import select
from collections.abc import Iterator

PAUSE_S = 0.05  # lines that come closer together than this are taken together
LOOK_UP_S = 0.5  # Ctrl-C just before a call that blocks would else wait for the next line


def windows(descriptor: int, size: int) -> Iterator[list[bytes]]:
    """The lines of a file descriptor without their ends, ``size`` at once, or as many as there are when no more come.

    A line ends with a line feed, a carriage return before it left out; the last one may do without.
    """
    waiting: list[bytes] = []
    rest = b""
    while True:
        while len(waiting) >= size or (waiting and not _readable(descriptor, PAUSE_S)):
            yield waiting[:size]
            waiting = waiting[size:]
        while not _readable(descriptor, LOOK_UP_S):
            pass
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        waiting += [line.removesuffix(b"\r") for line in lines]
    if rest:
        waiting.append(rest.removesuffix(b"\r"))
    if waiting:
        yield waiting


def decode(lines: list[bytes]) -> list[str]:
    """The lines before the first that is not UTF-8."""
    decoded: list[str] = []
    for line in lines:
        try:
            decoded.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            break
    return decoded


def _readable(descriptor: int, seconds: float) -> bool:
    """Whether something can be read within this time; the end of a file can."""
    return bool(select.select([descriptor], [], [], seconds)[0])
