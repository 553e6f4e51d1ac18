"""Lines of a file, a pipe or a keyboard, as they arrive."""

import os
import select
from collections.abc import Iterator
from itertools import chain, islice

from transformer.data.unpacked import Unpacked

PAUSE_S = 0.05  # lines that arrive within this time share a window
LOOK_UP_S = 0.5  # so that Ctrl-C just before a blocking call does not wait for the next line


def windows_of_file(file: Unpacked, size: int) -> Iterator[list[bytes]]:
    """The lines of a file, plain or compressed, ``size`` at a time. Raises RefusedError if it is damaged or no text."""
    lines = chain.from_iterable(_lines(file.chunks()))
    while window := list(islice(lines, size)):
        yield window


def _lines(chunks: Iterator[bytes]) -> Iterator[list[bytes]]:
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def windows(descriptor: int, size: int) -> Iterator[list[bytes]]:
    """The lines of a file descriptor without their ends: ``size`` at once, or fewer when no more arrive.

    A line ends with a line feed, or a carriage return and a line feed. The last line needs no end.
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
