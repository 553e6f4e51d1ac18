"""The process of a worker: where it runs, what it prints and answers, and the last lines of one
that is gone."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import TypeVar

import ray

from sweeps.preflight.node_facts import Packages, packages
from sweeps.processes.events import Event, Failed, Lost, Noticed
from sweeps.running.failures import ended_by
from sweeps.task import RefusedError
from sweeps.worker.calls import printable
from tracking.uri import without_password

LAST_LINES = 60
"""Of the standard error of a process that died or hung: the stacks of its threads, for
error.txt."""
EVENTS_AHEAD = 500
"""How many events a worker may be ahead of the sweep; then it and its peers wait."""
MOST_BYTES = 1 << 16
"""Of one call and one stream: a worker that prints without end keeps only the newest lines."""


T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """A worker's answer to a poll: its events since the last one, its signs of life, and whether
    its work is over.

    ``cpu_seconds``: of its process since the work began.
    """

    events: list[Event]
    signs: int
    over: bool
    cpu_seconds: float = 0.0


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
        if not line.startswith((":actor_name:", ":job_id:", ":task_name:"))
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
        """The last lines of its process's standard error, without Ray's own; none from another
        node.

        The process outlives its trial, so some of them may be an earlier trial's.
        """
        if self.node != ray.get_runtime_context().get_node_id():
            return []
        with suppress(OSError):
            lines = _without_marks(self.log.read_text("utf-8", "replace")).splitlines()
            return [without_password(line) for line in lines if line.strip()][-LAST_LINES:]
        return []

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host}"


def collect_events(events: Queue[Event | None], wait_s: float) -> list[Event]:
    """All events within that time; sooner once the work is over, or if many have come."""
    collected: list[Event] = []
    deadline = time.monotonic() + wait_s
    with suppress(Empty):
        while len(collected) < EVENTS_AHEAD // 2:
            event = events.get(timeout=max(0.0, deadline - time.monotonic()))
            if event is None:
                break
            collected.append(event)
    return collected


def with_rank(event: Event, rank: int) -> Event:
    """The event; a notice of a worker other than rank zero names that worker."""
    if rank and isinstance(event, Noticed):
        return replace(event, text=f"worker {rank}: {event.text}")
    return event


def guarded(act: Callable[[], T]) -> T | Failed | Lost:
    """The result of ``act``, or its error as the end of the attempt."""
    try:
        return act()
    except RefusedError as error:
        return Failed(printable(str(error.problems[0])), printable(str(error)))
    except BaseException as error:  # nobody else would hear of it
        return ended_by(error)


@cache
def own_packages() -> Packages:
    """Once per process: it has imported these files."""
    return packages()
