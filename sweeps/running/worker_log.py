"""Where a worker runs and what its process prints, also the last lines of one that is gone."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import ray

from sweeps.preflight.node_facts import Packages
from tracking.uri import without_password

LAST_LINES = 60
"""Of the standard error of a process that died or hung: the stacks of its threads, for
error.txt."""
MOST_BYTES = 1 << 16
"""Of one call and one stream: a worker that prints without end keeps only the newest lines."""


class OwnStream:
    """A standard stream of this process that goes to a file. A terminal or a pipe gives nothing:
    its reader sees it."""

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
            lines = content[: content.rfind(b"\n") + 1] if len(content) < MOST_BYTES else content
            self._at = start + len(lines)
            return without_password(_without_marks(lines.decode("utf-8", "replace")))
        return ""

    def _size(self) -> int:
        with suppress(OSError):
            return os.stat(self._path).st_size if self._path else 0  # noqa: PTH116 - the path may be None
        return 0


def _without_marks(text: str) -> str:
    """Ray marks its files with lines such as ":actor_name:WorkerActor"."""
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith((":actor_name:", ":job_id:"))
    )


@dataclass(frozen=True)
class WorkerPlace:
    """Where a worker runs. ``log`` is the file of its standard error there.

    ``packages`` are those of this worker, if they are compared.
    """

    host: str
    node: str
    pid: int
    log: Path
    packages: Packages | None

    def last_lines(self) -> list[str]:
        """The last lines of its standard error, without Ray's own lines; none from another node."""
        if self.node != ray.get_runtime_context().get_node_id():
            return []
        with suppress(OSError):
            lines = self.log.read_text("utf-8", "replace").splitlines()
            return [
                without_password(line)
                for line in lines
                if line.strip() and not line.startswith(":")
            ][-LAST_LINES:]
        return []

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"
