"""What a worker's process prints: Ray writes it to files of the session on the worker's node."""

import os
import sys
from contextlib import suppress
from pathlib import Path

MOST_BYTES = 1 << 16
"""Of one call and one stream: a worker that prints without end keeps only the newest lines."""


class Prints:
    """What this process prints from now on."""

    def __init__(self) -> None:
        self._streams = [OwnStream(descriptor) for descriptor in (1, 2)]

    def __call__(self) -> str:
        """Since the last call."""
        for file in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                file.flush()
        return "".join(stream.new() for stream in self._streams)


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
