"""Standard streams that never end a run: a missing letter is replaced, and text that cannot be
written is lost."""

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO, cast

FAILING = ("strict", "surrogateescape")
"""How a stream treats a letter that its encoding lacks, if that raises an error."""


class SteadyStream:
    """A text stream whose writing never fails: without room or a reader, only the text is lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def replace_letters() -> None:
    """Print ? for a letter that standard output or standard error lacks, such as Δ in ASCII."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None and stream.errors in FAILING:
            reconfigure(errors="replace")


def steady_streams() -> None:
    """Let nothing that this process prints raise an error: neither our lines nor those of a task's
    work."""
    replace_letters()
    sys.stdout = steady(sys.stdout)
    sys.stderr = steady(sys.stderr)


def steady(stream: TextIO | None) -> TextIO:
    """None, as of a process without this stream, stays None."""
    return cast(TextIO, stream and SteadyStream(stream))


def discard(*descriptors: int) -> None:
    """Send what these file descriptors get from now on to nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    if nowhere not in descriptors:  # one of them may have been closed
        os.close(nowhere)
