"""The workers of a trial on Ray: each a process in a bundle of the trial's placement group, all
polled together.

They outlive the trial, for the next one. A worker's process imports this: it needs no Ray Tune, so
it starts a second sooner; torch follows with the first trial.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Queue
from typing import Any, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util import get_current_placement_group, get_node_ip_address
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.checkpoints.reader import Start
from sweeps.config.settings import Cluster
from sweeps.preflight.node_facts import Packages, package_problems
from sweeps.processes.events import (
    Assignment,
    Event,
    Failed,
    Lost,
    Noticed,
    Printed,
    Report,
    Started,
)
from sweeps.processes.storage import signs_of_life
from sweeps.processes.streams import steady_streams
from sweeps.processes.times import IDLE_ANSWER_S, PATIENCE_S, STARTING_S
from sweeps.running.failures import (
    STDERR,
    CannotBeginError,
    Silence,
    StackTimer,
    died,
    silent,
)
from sweeps.running.worker_process import (
    EVENTS_AHEAD,
    Answer,
    OwnStream,
    WorkerPlace,
    collect_events,
    guarded,
    own_packages,
    with_rank,
)
from sweeps.worker.attempt import Driver
from sweeps.worker.debugger import pass_breakpoints, train_command
from sweeps.worker.user_code.imports import enter_code
from tracking.code import Code
from tracking.provenance import own_files

T = TypeVar("T")
Waits = Generator[list[Any], None, T]
"""A part of the beginning. It yields the calls that it waits for, until all are answered."""


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
        return Answer(events, signs_of_life(), over, cpu_seconds)

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


class WorkerGroup:
    """The workers of one trial. All are polled together, so that a death shows at once.

    ``packages`` are those of the sweep, which all nodes must have; None if this machine is the only
    one. ``code`` is the user's, which the workers import.
    """

    def __init__(
        self, cluster: Cluster, stall_s: float, packages: Packages | None, code: Code | None
    ) -> None:
        self._cluster = cluster
        self._stall_s = stall_s
        self._packages = packages
        self._code = ray.put(code)  # once, and not with each trial
        self._workers: list[Any] = []
        self._beginning: Waits[None] | None = None
        self._places: list[WorkerPlace] = []
        self._polls: dict[Any, int] = {}  # the rank by the poll that is under way
        self._unfinished: set[int] = set()
        self._recorded = 0  # the step of the last report that the sweep has recorded

    @property
    def begun(self) -> bool:
        return self._beginning is None

    @property
    def over(self) -> bool:
        return self.begun and not self._unfinished

    def begin(self, assignment: Assignment) -> None:
        """Polls start the workers, unless those of the last trial answer, and let them begin."""
        self._beginning = self._begin(assignment)
        self._unfinished = set()
        self._polls = {}

    def poll(self, stop: bool, within_s: float) -> Sequence[Event]:
        """Their events; those of the last poll are recorded by now. ``Lost`` or ``Failed`` ends the
        attempt."""
        if self._beginning is not None:
            return self._continue_beginning(self._beginning, within_s)
        events = self._poll_workers(stop, within_s)
        lost = next((event for event in events if isinstance(event, Lost)), None)
        if lost is not None:
            events = [event for event in events if not isinstance(event, Lost)]
            events += self._explain_loss(lost, stop)
        elif self._unfinished and self._silence.stalled(
            [self._signs[rank] for rank in sorted(self._unfinished)]
        ):
            events.append(self._stall_event())
        steps = [event.step for event in events if isinstance(event, Report)]
        self._recorded = max([self._recorded, *steps])
        return [self._with_hosts(event) for event in events]

    def close(self) -> None:
        """End the processes of the workers, and what they have begun."""
        self._end_workers()
        self._beginning = None

    def _end_workers(self) -> None:
        for worker in self._workers:
            ray.kill(worker)
        self._workers = []
        self._polls = {}

    def _continue_beginning(self, beginning: Waits[None], within_s: float) -> Sequence[Event]:
        """Continue the start of the workers until they take longer than that to answer. Returns the
        event if one of them cannot start."""
        try:
            for calls in beginning:
                _, unanswered = ray.wait(calls, num_returns=len(calls), timeout=within_s)
                if unanswered:
                    return []
            self._beginning = None
        except CannotBeginError as error:
            return [error.event]
        except GetTimeoutError:
            return [self._stall_event()]
        except RayError as error:
            return [died(error, "a worker")]
        return []

    def _begin(self, assignment: Assignment) -> Waits[None]:
        yield from self._ensure_workers()
        self._refuse_unfit_nodes()
        yield from self._start_attempt(assignment)
        self._unfinished = set(range(len(self._workers)))
        self._recorded = 0
        self._signs: list[int | None] = [None for _ in self._workers]
        self._cpu = [0.0 for _ in self._workers]  # seconds
        self._silence = Silence(self._stall_s)

    def _ensure_workers(self) -> Waits[None]:
        """The idle workers if all of them answer, otherwise new ones, perhaps on another node."""
        with suppress(RayError):
            if self._workers:
                self._places = yield from self._locate_workers(IDLE_ANSWER_S)
                return
        self._end_workers()
        self._workers = _start_workers(self._cluster)
        try:
            self._places = yield from self._locate_workers(max(self._stall_s, STARTING_S))
        except RayError as error:
            raise CannotBeginError(died(error, "a worker that was starting")) from None

    def _locate_workers(self, within_s: float) -> Waits[list[WorkerPlace]]:
        """Where the workers run. Raises RayError if one of them is gone or does not answer."""
        compared = self._packages is not None
        calls = [worker.place.remote(compared) for worker in self._workers]
        return (yield from _answers(calls, within_s))

    def _refuse_unfit_nodes(self) -> None:
        """Raise CannotBeginError for a node with other packages: the trial would train with other
        code. One may have joined since the start."""
        if not self._packages:
            return
        for worker_place in self._places:
            for problem in package_problems(worker_place.packages or {}, self._packages):
                cause = f"{worker_place.host}: {problem.found}; {problem.allowed}"
                raise CannotBeginError(Lost(cause, "", unfit=True))

    def _start_attempt(self, assignment: Assignment) -> Waits[None]:
        """Let all workers begin from the checkpoint that rank zero names. Raises RayError and
        CannotBeginError."""
        first = self._workers[0]
        other_workers = self._workers[1:]
        within = max(self._stall_s, STARTING_S)
        assigned = [
            worker.take.remote(assignment, self._stall_s, self._code) for worker in self._workers
        ]
        [start] = yield from _answers([first.newest.remote()], within)
        if isinstance(start, Failed | Lost):
            raise CannotBeginError(start)
        loaded = [worker.load.remote(start) for worker in other_workers]
        for failure in filter(None, (yield from _answers([*assigned, *loaded], within))):
            raise CannotBeginError(failure)
        [address] = yield from _answers([first.address.remote()], within)
        for worker in self._workers:
            worker.run.options(name=assignment.trial).remote(len(self._workers), address)

    def _poll_workers(self, stop: bool, within_s: float) -> list[Event]:
        """The answers to one poll of each unfinished worker. One that does not answer is not asked
        again yet."""
        for rank in self._unfinished - set(self._polls.values()):
            others_cpu = sum(self._cpu) - self._cpu[rank]
            poll = self._workers[rank].poll.remote(stop, self._recorded, others_cpu, within_s)
            self._polls[poll] = rank
        events: list[Event] = []
        deadline = time.monotonic() + within_s
        while self._polls and not any(isinstance(event, Lost | Failed) for event in events):
            remaining_s = deadline - time.monotonic()
            ready, _ = ray.wait(list(self._polls), num_returns=1, timeout=max(0.0, remaining_s))
            if not ready:
                break
            events += self._take_answer(ready[0])
        return events

    def _take_answer(self, poll: Any) -> list[Event]:
        rank = self._polls.pop(poll)
        try:
            answer: Answer = ray.get(poll)
        except RayError as error:
            self._unfinished.discard(rank)
            return [died(error, f"worker {rank}", self._places[rank])]
        self._signs[rank] = answer.signs
        self._cpu[rank] = answer.cpu_seconds
        if any(not isinstance(event, Printed) for event in answer.events):
            self._silence.heard()
        if answer.over:
            self._unfinished.discard(rank)
        return [with_rank(event, rank) for event in answer.events]

    def _explain_loss(self, lost: Lost, stop: bool) -> list[Event]:
        """The last events of the other workers, and then the cause.

        A worker that only noticed the loss of others may be heard before the one that failed or
        died.
        """
        events: list[Event] = []
        deadline = time.monotonic() + PATIENCE_S
        while lost.peer and self._unfinished and (remaining_s := deadline - time.monotonic()) > 0:
            for event in self._poll_workers(stop, min(remaining_s, 1.0)):
                if isinstance(event, Failed):
                    return [*events, event]
                if isinstance(event, Lost):
                    lost = lost if event.peer else event
                else:
                    events.append(event)
        return [*events, lost]

    def _with_hosts(self, event: Event) -> Event:
        hosts = tuple(worker_place.host for worker_place in self._places)
        return replace(event, hosts=hosts) if isinstance(event, Started) else event

    def _stall_event(self) -> Lost:
        """All workers hang. log.txt has the stacks of those that answer polls; others may have
        printed theirs here."""
        lines: list[str] = []
        for worker_place in self._places:
            lines += worker_place.last_lines()
        return Lost(silent(self._stall_s), "\n".join(lines))


def _start_workers(cluster: Cluster) -> list[Any]:
    group = get_current_placement_group()
    return [
        WorkerActor.options(  # type: ignore[attr-defined]
            num_cpus=cluster.cpus_per_worker,
            num_gpus=cluster.gpus_per_worker,
            scheduling_strategy=PlacementGroupSchedulingStrategy(
                group, placement_group_bundle_index=rank
            ),
        ).remote(rank)
        for rank in range(cluster.workers)
    ]


def _answers(calls: list[Any], within_s: float) -> Waits[list[Any]]:
    """The answers to all these calls. Raises RayError once one has failed or that time is over."""
    deadline = time.monotonic() + within_s
    while True:
        answered, unanswered = ray.wait(calls, num_returns=len(calls), timeout=0)
        ray.get(answered)  # raises
        if not unanswered:
            return list(ray.get(calls))
        if time.monotonic() > deadline:
            raise GetTimeoutError
        yield calls
