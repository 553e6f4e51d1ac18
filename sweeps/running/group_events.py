"""The events of one attempt's worker group, until it ends, a worker dies, or all of them hang."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Event, Failed, Lost, Printed, Report, Started
from sweeps.running.assignment import Assignment
from sweeps.running.deaths import describe
from sweeps.running.silence import STARTING_S, Silence
from sweeps.running.stacks import stacks_in
from sweeps.running.worker_actor import Answer, Place

POLL_S, IDLE_POLL_S = 0.5, 1.0
"""How long a poll of rank zero waits for an event, and one of the other workers, which say little."""
PATIENCE_S = 10.0
"""How long to wait for the cause once a worker has noticed that a peer is gone."""
STACKS_S = 30.0
"""How long to wait for the stacks of workers that hung: a process must start on their nodes."""


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def remote_stacks(log: Path) -> str:
    """``stacks_in``, on the node of that file."""
    return stacks_in(log)


class GroupEvents:
    """The events of all workers as they come, in lists. A death shows at once, since all are polled together."""

    def __init__(self, workers: list[Any], places: list[Place], stall_s: float, stops: Callable[[], bool]) -> None:
        self.workers, self.places, self.stops, self.stall_s = workers, places, stops, stall_s
        self.signs: list[int | None] = [None] * len(workers)
        self.silence = Silence(len(workers), stall_s, self.signs.__getitem__)
        self.recorded = 0  # the step of the last report that the sweep has recorded
        self.polls: dict[Any, int] = {}

    def of(self, assignment: Assignment) -> Iterator[Sequence[Event]]:
        """An event is recorded once the next list is asked for."""
        try:
            ended = self._start(assignment)
            if ended is not None:
                yield [ended]
                return
            for events in self._as_they_come():
                yield [self._placed(event) for event in events]
                steps = [event.step for event in events if isinstance(event, Report)]
                self.recorded = max([self.recorded, *steps])
        except GetTimeoutError:
            yield from self._stalled()
        except RayError as error:
            yield [describe(error, "a worker")]

    def _start(self, assignment: Assignment) -> Failed | Lost | None:
        """Let all workers begin from the checkpoint that rank zero names."""
        first, *others = self.workers
        started = first.newest.remote(assignment, self.stall_s)
        taken = [worker.take.remote(assignment, self.stall_s) for worker in others]
        within = max(self.stall_s, STARTING_S)
        start = ray.get(started, timeout=within)
        if isinstance(start, Failed | Lost):
            return start
        loaded = [worker.load.remote(start) for worker in others]
        for answer in ray.get([*taken, *loaded], timeout=within):
            if answer is not None:
                ended: Failed | Lost = answer
                return ended
        address = ray.get(first.address.remote(), timeout=within)
        for rank, worker in enumerate(self.workers):
            worker.run.remote(rank, len(self.workers), address)
            self._poll(rank)
        return None

    def _poll(self, rank: int) -> None:
        poll = self.workers[rank].poll
        self.polls[poll.remote(rank, self.stops(), self.recorded, POLL_S if rank == 0 else IDLE_POLL_S)] = rank

    def _as_they_come(self) -> Iterator[Sequence[Event]]:
        while self.polls:
            events = self._arrived(self.silence.every)
            if lost := next((event for event in events if isinstance(event, Lost)), None):
                yield [event for event in events if event is not lost]
                yield from self._explained(lost)
                return
            if events:
                yield events
            if self.silence.stalled(list(self.polls.values())):
                yield from self._stalled()
                return

    def _arrived(self, within_s: float) -> list[Event]:
        """The new events of one worker; [] if none come in time, or if a worker has ended."""
        ready, _ = ray.wait(list(self.polls), num_returns=1, timeout=within_s)
        if not ready:
            return []
        rank = self.polls.pop(ready[0])
        try:
            answer: Answer = ray.get(ready[0])
        except RayError as error:
            return [describe(error, f"worker {rank}", self.places[rank])]
        self.signs[rank] = answer.signs
        if not (answer.over or any(isinstance(event, Lost | Failed) for event in answer.events)):
            self._poll(rank)
        return answer.events

    def _explained(self, lost: Lost) -> Iterator[Sequence[Event]]:
        """What the other workers still tell, and then the cause.

        A worker that only noticed the loss of others may be heard before the one that failed or died.
        """
        deadline = time.monotonic() + PATIENCE_S
        while self.polls and not _is_cause(lost) and (left := deadline - time.monotonic()) > 0:
            events = self._arrived(left)
            if failed := [event for event in events if isinstance(event, Failed)]:
                yield failed[:1]
                return
            lost = next((event for event in events if isinstance(event, Lost) and _is_cause(event)), lost)
            yield [event for event in events if not isinstance(event, Lost)]
        yield [lost]

    def _placed(self, event: Event) -> Event:
        hosts = tuple(place.host for place in self.places)
        return replace(event, hosts=hosts) if isinstance(event, Started) else event

    def _stalled(self) -> Iterator[Sequence[Event]]:
        """All workers hang: the attempt ends, and the trial's log gets the stacks that they have written."""
        printed = [Printed(rank, text) for rank, text in self._stacks() if text]
        cause = f"no worker gave a sign of life for {self.stall_s / 60:g} min (sweep.stall_minutes)"
        yield [*printed, Lost(cause, "log.txt has the stacks of the workers." if printed else "")]

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
