"""The events of one attempt's worker group, until it ends, a worker dies, or all of them hang."""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Event, Failed, Lost, Noticed, Printed, Started
from sweeps.running.deaths import describe
from sweeps.running.probe import Probe
from sweeps.running.same_start import SameStart
from sweeps.running.signs_of_life import Watch
from sweeps.running.stacks import stacks_of
from sweeps.running.worker_actor import Place
from sweeps.task import Assignment

EVENTS_AHEAD = 4
"""How many events a worker may send before the sweep takes one; then the worker and its peers wait."""
PATIENCE_S = 5.0
"""How long to wait for the cause of a peer's death."""
STACKS_S = 30.0
"""How long to wait for the stacks of workers that hang: a process must start on their nodes."""


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def remote_stacks(pid: int) -> str:
    """``stacks_of``, for a process of another node."""
    return stacks_of(pid)


class GroupEvents:
    """The events of all workers as they come. A death shows at once, since all are waited for together."""

    def __init__(self, workers: list[Any], places: list[Place], stall_s: float) -> None:
        self.workers, self.places = workers, places
        self.watch = Watch([f"signs-{uuid.uuid4().hex}" for _ in workers], stall_s)
        self.same_start = SameStart()
        self.streams: dict[Any, int] = {}

    def of(self, assignment: Assignment, bell: Any) -> Iterator[Event]:
        try:
            self._start(assignment, bell)
            yield from map(self._placed, self._as_they_come())
        except RayError as error:
            yield describe(error, "a worker")
        finally:
            self.watch.forget()
            self.same_start.forget()

    def _start(self, assignment: Assignment, bell: Any) -> None:
        address = ray.get(self.workers[0].address.remote(), timeout=self.watch.stall_s)
        for rank, worker in enumerate(self.workers):
            run = worker.run.options(num_returns="streaming", _generator_backpressure_num_objects=EVENTS_AHEAD)
            signs = self.watch.names[rank], self.watch.stall_s
            group = rank, len(self.workers), address
            self.streams[run.remote(assignment, *group, bell, *signs, self.same_start)] = rank

    def _as_they_come(self) -> Iterator[Event]:
        while self.streams:
            ready, _ = ray.wait(list(self.streams), num_returns=1, timeout=self.watch.every)
            for stream in ready:
                rank = self.streams.pop(stream)
                try:
                    event = self._next(stream, rank)
                except StopIteration:
                    continue
                if isinstance(event, Lost):  # perhaps noticed by a peer: another worker may know why
                    yield self._cause(event)
                    return
                self.streams[stream] = rank
                yield event
            if self.watch.stalled(list(self.streams.values())):
                yield self._stalled()
                return

    def _next(self, stream: Any, rank: int) -> Event:
        """Raises StopIteration at the end of the worker's events."""
        try:
            event: Event = ray.get(next(stream))
        except RayError as error:
            return describe(error, f"worker {rank}")
        self.watch.heard(rank)
        return event

    def _cause(self, lost: Lost) -> Lost | Failed:
        """What the other workers tell of the loss, if they do so in time: a failure, or which of them died."""
        if lost.memory or lost.died or not self.streams:
            return lost
        ready, _ = ray.wait(list(self.streams), num_returns=len(self.streams), timeout=PATIENCE_S)
        found: list[Lost | Failed] = []
        for stream in ready:
            with suppress(StopIteration):
                while isinstance(event := self._next(stream, self.streams[stream]), Printed):
                    pass
                found += [event] if isinstance(event, Lost | Failed) else []
        failures = [each for each in found if isinstance(each, Failed) or each.memory or each.died]
        return next(iter(failures), lost)

    def _placed(self, event: Event) -> Event:
        hosts = tuple(place.host for place in self.places)
        return replace(event, hosts=hosts) if isinstance(event, Started) else event

    def _stalled(self) -> Lost:
        """All workers hang: the attempt ends with the stacks of each."""
        stacks = {rank: self._stacks(rank) for rank in range(len(self.workers))}
        minutes = self.watch.stall_s / 60
        stopped = [rank for rank, text in stacks.items() if text.startswith("the process is stopped")]
        which = ", ".join(f"worker {rank} ({self.places[rank]})" for rank in stopped)
        cause = f"no worker gave a sign of life for {minutes:g} min (sweep.stall_minutes)"
        cause = f"{which} is stopped: {cause}" if stopped else cause
        parts = [f"worker {rank} ({self.places[rank]}):\n{text}" for rank, text in stacks.items()]
        return Lost(cause, "\n\n".join(parts))

    def _stacks(self, rank: int) -> str:
        place = self.places[rank]
        where = NodeAffinitySchedulingStrategy(place.node, soft=False)
        try:
            return str(ray.get(remote_stacks.options(scheduling_strategy=where).remote(place.pid), timeout=STACKS_S))
        except RayError as error:
            return f"no stack: its node does not answer: {type(error).__name__}"


def unseen(places: list[Place], probe: Probe | None) -> Iterator[Noticed]:
    """A notice for each node that does not see the folder of the checkpoints."""
    for host in dict.fromkeys(place.host for place in places if not place.sees_folder):
        folder = probe.folder.removesuffix("/.locks") if probe else ""
        yield Noticed(f"{host} does not see {folder}: what it saves can be resumed only there; share that folder")
