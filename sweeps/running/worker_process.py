"""A worker on Ray: its process, where it runs, what it prints and answers, and the last lines of one
that is gone.

It needs no Ray Tune, so it starts a second sooner; torch follows with the first trial.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from queue import Empty, Queue
from typing import TypeVar

import ray
from ray.util import get_node_ip_address

from sweeps.preflight.node_facts import Packages, packages
from sweeps.processes.storage import signs
from sweeps.processes.streams import steady_streams
from sweeps.running.failures import STDERR, StackTimer, ended_by
from sweeps.task import RefusedError
from sweeps.worker.attempt import Driver
from sweeps.worker.calls import printable
from sweeps.worker.checkpoint_files import Start
from sweeps.worker.debugger import pass_breakpoints, train_command
from sweeps.worker.events import Assignment, Event, Failed, Lost, Noticed, Printed
from sweeps.worker.user_code.imports import enter_code
from tracking.code import Code
from tracking.provenance import own_files
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


@ray.remote(max_restarts=0, concurrency_groups={"poll": 1})
class WorkerActor:
    """One process of a worker group, for all trials that Tune gives the group. It answers polls
    while it works."""

    def __init__(self, rank: int) -> None:
        own_files()  # of now, when this process imports them
        # Ray's own arguments are not for the work, nor for processes that it starts
        sys.argv[:] = ["allelse"]
        steady_streams()
        self.rank = rank
        self.port_socket: socket.socket | None = None
        self.driver: Driver | None = None

    def __repr__(self) -> str:
        """As Ray's tools show it."""
        return f"worker {self.rank}"

    def place(self, compared: bool) -> WorkerPlace:
        """Where this worker runs, and the packages that are ``compared``."""
        node = ray.get_runtime_context().get_node_id()
        log = Path(f"/proc/self/fd/{STDERR}").resolve()
        return WorkerPlace(
            socket.gethostname(), node, os.getpid(), log, own_packages() if compared else None
        )

    def address(self) -> str:
        """host:port on this worker's node where the group can meet. The port is held until the next
        call."""
        from sweeps.worker.peers import held_port

        self.port_socket, address = held_port(get_node_ip_address())
        return address

    def take(
        self, assignment: Assignment, stall_s: float, code: Code | None
    ) -> Failed | Lost | None:
        """Take the assignment, or return the failure. The task is imported from ``code``, which is
        the user's."""
        self.driver = None
        self.events: Queue[Event | None] = Queue(EVENTS_AHEAD)
        self.stop = threading.Event()
        self.over = threading.Event()
        self.streams = [OwnStream(descriptor) for descriptor in (1, STDERR)]
        self.stacks = StackTimer(stall_s, STDERR)
        return guarded(partial(self._take, assignment, code))

    def newest(self) -> Start | Failed | Lost | None:
        """The checkpoint to start from, on rank zero. None without an assignment: ``take`` has
        returned the cause."""
        return None if self.driver is None else guarded(self.driver.newest)

    def load(self, start: Start | None) -> Failed | Lost | None:
        return None if self.driver is None else guarded(partial(self.driver.load, start))

    def run(self, world: int, address: str) -> None:
        """Work; its end is an event, too."""
        assert self.driver is not None
        ended = guarded(partial(self.driver.work, self.rank, world, address, self.stop.is_set))
        if ended is not None:
            self.events.put(ended)
        self.stacks.close()
        self.over.set()
        self.events.put(None)  # wakes a poll that waits

    @ray.method(concurrency_group="poll")  # type: ignore[untyped-decorator]
    def poll(self, stop: bool, recorded: int, others_cpu: float, wait_s: float) -> Answer:
        """Events since the last poll, and those of the next ``wait_s``. Passes on whether to stop,
        up to which step the sweep has recorded the reports, and the CPU seconds of the other
        workers."""
        if stop:
            self.stop.set()
        if self.driver is not None:
            self.driver.recorded(recorded)
            self.driver.cpu.others = others_cpu
        self.stacks.look()  # before the wait, too: this process may hang within it
        events = collect_events(self.events, 0.0 if self.over.is_set() else wait_s)
        over = self.over.is_set() and self.events.empty()
        text = self._printed()
        self.stacks.look()
        if text:
            events = [Printed(self.rank, text), *events]
        cpu_seconds = self.driver.cpu.own if self.driver is not None else 0.0
        return Answer(events, signs(), over, cpu_seconds)

    def _take(self, assignment: Assignment, code: Code | None) -> None:
        study_folder = Path(assignment.study_folder)
        folder = enter_code(code, study_folder)
        command = train_command(
            assignment.task, study_folder.name, assignment.trial, assignment.seed
        )
        pass_breakpoints(lambda text: self.events.put(Noticed(text)), command)
        assignment = replace(assignment, folder=str(folder or assignment.folder))
        self.driver = Driver(assignment, self.events.put)

    def _printed(self) -> str:
        """What this process has printed since the last call."""
        for file in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                file.flush()
        return "".join(stream.new() for stream in self.streams)
