"""The events of one attempt's worker group, until it ends, a worker dies, or all of them hang."""

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Event, Failed, Lost, Printed, Started
from sweeps.running.deaths import describe
from sweeps.running.same_start import SameStart
from sweeps.running.signs_of_life import Watch
from sweeps.running.stacks import stacks_in
from sweeps.running.worker_actor import Place
from sweeps.task import Assignment

EVENTS_AHEAD = 4
"""How many events a worker may send before the sweep takes one; then the worker and its peers wait."""
PATIENCE_S = 10.0
"""How long to wait for the cause once a worker has noticed that a peer is gone."""
STACKS_S = 30.0
"""How long to wait for the stacks of workers that hung: a process must start on their nodes."""


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def remote_stacks(log: Path) -> str:
    """``stacks_in``, on the node of that file."""
    return stacks_in(log)


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
            event = self._arrived(self.watch.every)
            if isinstance(event, Lost):
                yield from self._explained(event)
                return
            if event is not None:
                yield event
            if self.watch.stalled(list(self.streams.values())):
                yield from self._stalled()
                return

    def _arrived(self, within_s: float) -> Event | None:
        """The next event of any worker; None if none comes in time, or if a worker has ended."""
        ready, _ = ray.wait(list(self.streams), num_returns=1, timeout=within_s)
        if not ready:
            return None
        rank = self.streams.pop(ready[0])
        try:
            event: Event = ray.get(next(ready[0]))
        except StopIteration:
            return None
        except RayError as error:
            return describe(error, f"worker {rank}", self.places[rank])
        self.watch.heard(rank)
        if not isinstance(event, Lost):
            self.streams[ready[0]] = rank
        return event

    def _explained(self, lost: Lost) -> Iterator[Event]:
        """What the other workers still tell, and then the cause.

        A worker that only noticed the loss of others may be heard before the one that failed or died.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self.streams and not _is_cause(lost) and (left := deadline - time.monotonic()) > 0:
            event = self._arrived(left)
            if isinstance(event, Failed):
                yield event
                return
            if isinstance(event, Lost):
                lost = event if _is_cause(event) else lost
            elif event is not None:
                yield event
        yield lost

    def _placed(self, event: Event) -> Event:
        hosts = tuple(place.host for place in self.places)
        return replace(event, hosts=hosts) if isinstance(event, Started) else event

    def _stalled(self) -> Iterator[Event]:
        """All workers hang: the attempt ends, and the trial's log gets the stacks that they have written."""
        printed = [Printed(rank, text) for rank, text in self._stacks() if text]
        yield from printed
        cause = f"no worker gave a sign of life for {self.watch.stall_s / 60:g} min (sweep.stall_minutes)"
        yield Lost(cause, "log.txt has the stacks of the workers." if printed else "")

    def _stacks(self) -> Iterator[tuple[int, str]]:
        """Of each worker whose node answers, with its rank."""
        asked = {_stack_at(place): rank for rank, place in enumerate(self.places)}
        ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=STACKS_S)
        for answer in ready:
            with suppress(RayError):  # it prints to no file, or its node is gone
                yield asked[answer], ray.get(answer)


def _stack_at(place: Place) -> Any:
    where = NodeAffinitySchedulingStrategy(place.node, soft=False)
    return remote_stacks.options(scheduling_strategy=where).remote(place.log)


def _is_cause(lost: Lost) -> bool:
    """Whether this worker itself is lost. If not, it only noticed that others are gone."""
    return not lost.peer
