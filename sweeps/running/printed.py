"""What a worker's process prints, as events: Ray writes it to files of the session on the worker's node."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sweeps.events import Event, Printed

MOST_BYTES = 1 << 16
"""Of one event and one stream: a worker that prints without end keeps only the newest lines."""


def printing(rank: int, events: Iterator[Event]) -> Iterator[Event]:
    """The events, each after what the process printed before it."""
    streams = [OwnStream(descriptor) for descriptor in (1, 2)]
    try:
        for event in events:
            yield from _printed(rank, streams)
            yield event
    except GeneratorExit:
        raise
    except BaseException:
        yield from _printed(rank, streams)
        raise
    yield from _printed(rank, streams)


def _printed(rank: int, streams: "list[OwnStream]") -> Iterator[Printed]:
    for file in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            file.flush()
    text = "".join(stream.new() for stream in streams)
    if text:
        yield Printed(rank, text)


class OwnStream:
    """A standard stream of this process that goes to a file. A terminal or a pipe gives nothing: its reader sees it."""

    def __init__(self, descriptor: int) -> None:
        target = Path(f"/proc/self/fd/{descriptor}")
        self._path = target.resolve() if target.exists() and target.is_file() else None
        self._at = self._size()

    def new(self) -> str:
        """The complete lines since the last call, without Ray's own."""
        end = self._size()
        if self._path is None or end <= self._at:
            self._at = min(self._at, end)
            return ""
        with suppress(OSError), self._path.open("rb") as file:
            start = max(self._at, end - MOST_BYTES)
            file.seek(start)
            content = file.read(end - start)
            whole = content[: content.rfind(b"\n") + 1] if len(content) < MOST_BYTES else content
            self._at = start + len(whole)
            return _without_marks(whole.decode("utf-8", "replace"))
        return ""

    def _size(self) -> int:
        with suppress(OSError):
            return os.stat(self._path).st_size if self._path else 0  # noqa: PTH116 - the path may be None
        return 0


def _without_marks(text: str) -> str:
    """Ray marks its files with lines such as ":actor_name:WorkerActor"."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith((":actor_name:", ":job_id:")))
