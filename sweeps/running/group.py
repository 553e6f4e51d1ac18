"""A trial's process, which Ray Tune steps: it polls the workers of a trial, one per bundle of its placement group.

Process and workers outlive the trial, for the next one. Imports no torch: only the workers need it.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import ray
from ray import tune
from ray.exceptions import GetTimeoutError, RayError
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.config.settings import Cluster
from sweeps.preflight.node_facts import Packages, other_packages
from sweeps.processes.times import FIRST_ORDER_S, IDLE_ANSWER_S, PATIENCE_S, STARTING_S
from sweeps.running.failures import Silence, died, silent
from sweeps.running.worker import Answer, WorkerActor, WorkerPlace
from sweeps.worker.events import (
    Assignment,
    Event,
    Failed,
    Finished,
    Lost,
    Noticed,
    Order,
    Printed,
    Report,
    Started,
    Stopped,
)
from tracking.provenance import Code

T = TypeVar("T")
Waits = Generator[Sequence[Event], None, T]
"""A part of the beginning. It yields whenever it waits longer than one poll, and the event with which it fails."""


class LostWorkersError(RuntimeError):
    """The attempt lost a worker: Tune ends this process, with its place."""


class TrialProcess(tune.Trainable):  # type: ignore[misc]
    """Runs trials one after another, with the same workers as long as these are well."""

    def setup(
        self, config: dict[str, Any], cluster: Cluster, stall_s: float, packages: Packages | None, code: Code | None
    ) -> None:
        self._group = WorkerGroup(cluster, stall_s, packages, code)
        self.reset_config({})

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._turn, self._lost = Turn(self._group), ""
        self._process: Any = ray.get_runtime_context().current_actor  # told once, to be given orders
        return True

    def obey(self, order: Order) -> None:
        """From the next step on. Ray calls it between two of them."""
        self._turn.order = order

    def step(self) -> dict[str, Any]:
        """One poll: its events, and whether the trial is over. Raises LostWorkersError after a loss was told."""
        if self._lost:
            raise LostWorkersError(self._lost)
        said = self._turn.step()
        self._lost = said.lost.cause if said.lost else ""
        told, self._process = {"process": self._process} if self._process else {}, None
        return {"attempt": said.attempt, "events": said.events, "done": said.over and said.lost is None, **told}

    def cleanup(self) -> None:
        self._group.close()


@dataclass(frozen=True)
class Said:
    """The events of an attempt since the last step. ``over``: it has ended. ``lost``: because it lost a worker."""

    attempt: int
    events: Sequence[Event] = ()
    over: bool = False
    lost: Lost | None = None


class Turn:
    """Runs the attempt of its ``order``, the last one that came."""

    def __init__(self, group: "WorkerGroup") -> None:
        self._group = group
        self.order: Order | None = None
        self._attempt = 0  # the number of the attempt that has begun
        self._finished = False

    def step(self) -> Said:
        """One poll. Before the first order it answers after a short pause."""
        order = self.order
        if order is None:
            time.sleep(FIRST_ORDER_S)
            return Said(0)
        if order.assignment is None and self._attempt:  # what it does is wanted no more
            return self._closed([])
        if order.assignment is None or (order.stop and not self._attempt):
            return Said(0, over=True)
        if not self._attempt:
            self._attempt = order.assignment.attempt
            self._group.begin(order.assignment)
        if order.stop and not self._group.begun:
            return self._closed([])
        return self._told(self._group.poll(order.stop, order.poll_s))

    def _told(self, events: Sequence[Event]) -> Said:
        end = next((event for event in events if isinstance(event, Failed | Lost)), None)
        if end is not None and self._finished:  # the result stands, but these workers are not used again
            return self._closed([Noticed(f"a worker did not exit cleanly after the result: {end.cause}")])
        if isinstance(end, Lost):
            return self._closed(events, end)
        if end is not None or any(isinstance(event, Stopped) for event in events):
            return self._closed(events)
        self._finished = self._finished or any(isinstance(event, Finished) for event in events)
        if not self._group.over:
            return Said(self._attempt, events)
        if self._finished:  # what workers print may follow the result
            return Said(self._attempt, events, over=True)
        lost = Lost("worker 0 ended without a result", "")
        return self._closed([*events, lost], lost)

    def _closed(self, events: Sequence[Event], lost: Lost | None = None) -> Said:
        self._group.close()
        return Said(self._attempt, events, over=True, lost=lost)


class WorkerGroup:
    """All of them are polled together, so that a death shows at once.

    ``packages`` are those of the sweep, which all nodes must have; None if this machine is the only one. ``code`` is
    the user's, which the workers import.
    """

    def __init__(self, cluster: Cluster, stall_s: float, packages: Packages | None, code: Code | None) -> None:
        self._cluster, self._stall_s, self._packages = cluster, stall_s, packages
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
        self._beginning, self._unfinished, self._polls = self._begin(assignment), set(), {}

    def poll(self, stop: bool, within_s: float) -> Sequence[Event]:
        """What they tell; what the last poll told is recorded by now. ``Lost`` or ``Failed`` ends the attempt."""
        if self._beginning is not None:
            return self._go_on(self._beginning, within_s)
        events = self._polled(stop, within_s)
        lost = next((event for event in events if isinstance(event, Lost)), None)
        if lost is not None:
            events = [*(event for event in events if not isinstance(event, Lost)), *self._explained(lost, stop)]
        elif self._unfinished and self._silence.stalled([self._signs[rank] for rank in sorted(self._unfinished)]):
            events.append(self._stalled())
        steps = [event.step for event in events if isinstance(event, Report)]
        self._recorded = max([self._recorded, *steps])
        return [self._placed(event) for event in events]

    def close(self) -> None:
        """End the processes of the workers, and what they have begun."""
        self._end_workers()
        self._beginning = None

    def _end_workers(self) -> None:
        for worker in self._workers:
            ray.kill(worker)
        self._workers, self._polls = [], {}

    def _go_on(self, beginning: Waits[None], within_s: float) -> Sequence[Event]:
        """Let them begin, as far as it goes within that time; what they tell if one cannot."""
        self._within_s = within_s
        try:
            return next(beginning)
        except StopIteration:
            self._beginning = None
            return []
        except GetTimeoutError:
            return [self._stalled()]
        except RayError as error:
            return [died(error, "a worker")]

    def _begin(self, assignment: Assignment) -> Waits[None]:
        yield from self._ready()
        if unfit := next(self._unfit(), None):
            yield [unfit]
        yield from self._started(assignment)
        self._unfinished, self._recorded = set(range(len(self._workers))), 0
        self._signs: list[int | None] = [None] * len(self._workers)
        self._silence = Silence(self._stall_s)

    def _ready(self) -> Waits[None]:
        """The idle workers if all of them answer, otherwise new ones. Another node may have come with them."""
        with suppress(RayError):
            if self._workers:
                self._places = yield from self._located(IDLE_ANSWER_S)
                return
        self._end_workers()
        self._workers = _start_workers(self._cluster)
        try:
            self._places = yield from self._located(max(self._stall_s, STARTING_S))
        except RayError as error:
            yield [died(error, "a worker that was starting")]

    def _located(self, within_s: float) -> Waits[list[WorkerPlace]]:
        """Where the workers run. Raises RayError if one of them is gone or does not answer."""
        compared = self._packages is not None
        return (yield from self._answers([worker.place.remote(compared) for worker in self._workers], within_s))

    def _answers(self, calls: list[Any], within_s: float) -> Waits[list[Any]]:
        """Of all these calls. Raises RayError, as soon as one has failed or once that time is over."""
        deadline = time.monotonic() + within_s
        while True:
            ready, waiting = ray.wait(calls, num_returns=len(calls), timeout=self._within_s)
            ray.get(ready)  # raises
            if not waiting:
                return list(ray.get(calls))
            if time.monotonic() > deadline:
                raise GetTimeoutError
            yield []

    def _unfit(self) -> Iterator[Event]:
        """Nodes with other packages: the trial would train with other code. One may have joined since the start."""
        for place in self._places:
            for problem in other_packages(place.packages or {}, self._packages) if self._packages else ():
                yield Lost(f"{place.host}: {problem.found}; {problem.allowed}", "", unfit=True)

    def _started(self, assignment: Assignment) -> Waits[None]:
        """Let all workers begin from the checkpoint that rank zero names. Raises RayError."""
        first, *others = self._workers
        within = max(self._stall_s, STARTING_S)
        taken = [worker.take.remote(assignment, self._stall_s, self._code) for worker in self._workers]
        [start] = yield from self._answers([first.newest.remote()], within)
        if isinstance(start, Failed | Lost):
            yield [start]
        loaded = [worker.load.remote(start) for worker in others]
        for failure in filter(None, (yield from self._answers([*taken, *loaded], within))):
            yield [failure]
        [address] = yield from self._answers([first.address.remote()], within)
        for worker in self._workers:
            worker.run.options(name=assignment.trial).remote(len(self._workers), address)

    def _polled(self, stop: bool, within_s: float) -> list[Event]:
        """The answers to one poll of each unfinished worker. One that does not answer is not asked again yet."""
        for rank in self._unfinished - set(self._polls.values()):
            poll = self._workers[rank].poll.remote(stop, self._recorded, within_s)
            self._polls[poll] = rank
        events: list[Event] = []
        deadline = time.monotonic() + within_s
        while self._polls and not any(isinstance(event, Lost | Failed) for event in events):
            left = deadline - time.monotonic()
            ready, _ = ray.wait(list(self._polls), num_returns=1, timeout=max(0.0, left))
            if not ready:
                break
            events += self._answered(ready[0])
        return events

    def _answered(self, poll: Any) -> list[Event]:
        rank = self._polls.pop(poll)
        try:
            answer: Answer = ray.get(poll)
        except RayError as error:
            self._unfinished.discard(rank)
            return [died(error, f"worker {rank}", self._places[rank])]
        self._signs[rank] = answer.signs
        if any(not isinstance(event, Printed) for event in answer.events):
            self._silence.heard()
        if answer.over:
            self._unfinished.discard(rank)
        return [_named(event, rank) for event in answer.events]

    def _explained(self, lost: Lost, stop: bool) -> list[Event]:
        """What the other workers still tell, and then the cause.

        A worker that only noticed the loss of others may be heard before the one that failed or died.
        """
        told: list[Event] = []
        deadline = time.monotonic() + PATIENCE_S
        while lost.peer and self._unfinished and (left := deadline - time.monotonic()) > 0:
            for event in self._polled(stop, min(left, 1.0)):
                if isinstance(event, Failed):
                    return [*told, event]
                if isinstance(event, Lost):
                    lost = lost if event.peer else event
                else:
                    told.append(event)
        return [*told, lost]

    def _placed(self, event: Event) -> Event:
        hosts = tuple(place.host for place in self._places)
        return replace(event, hosts=hosts) if isinstance(event, Started) else event

    def _stalled(self) -> Lost:
        """All workers hang. log.txt has the stacks of those that answer polls; others may have printed theirs here."""
        return Lost(silent(self._stall_s), "\n".join(line for place in self._places for line in place.last_lines()))


def _named(event: Event, rank: int) -> Event:
    """A notice of another worker than rank zero says whose it is."""
    return replace(event, text=f"worker {rank}: {event.text}") if rank and isinstance(event, Noticed) else event


def _start_workers(cluster: Cluster) -> list[Any]:
    group = get_current_placement_group()
    return [
        WorkerActor.options(  # type: ignore[attr-defined]
            num_cpus=cluster.cpus_per_worker,
            num_gpus=cluster.gpus_per_worker,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank),
        ).remote(rank)
        for rank in range(cluster.workers)
    ]
