"""One attempt at a trial in its process: begin as ordered, poll the workers, and tell how it ends.

The orders of all processes lie in one named actor, which each process asks before every poll. Its process and those of
workers import this. It needs no Ray Tune, so they start a second sooner.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Assignment, Event, Failed, Finished, Lost, Noticed, Stopped
from sweeps.processes.times import ANSWER_S, POLL_S

ACTOR = "orders"


@dataclass(frozen=True)
class Order:
    """The attempt to run; None if there is nothing to do. ``stop``: save a checkpoint after this step, and end.

    ``poll_s`` is how long a poll of the workers takes.
    """

    assignment: Assignment | None
    stop: bool = False
    poll_s: float = POLL_S


@ray.remote(num_cpus=0)
class Orders:
    """By the process that they are for. After its own death it knows none, until the sweep repeats them."""

    def __init__(self) -> None:
        self._orders: dict[str, Order] = {}

    def put(self, orders: Mapping[str, Order]) -> None:
        """Replace those of these processes."""
        self._orders |= orders

    def of(self, process: str) -> Order | None:
        """The newest order for this process."""
        return self._orders.get(process)


def start_orders() -> Any:
    """Start the actor on this process's node, so that it survives the death of any other node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    options = {"name": ACTOR, "scheduling_strategy": here, "max_restarts": -1, "max_task_retries": -1}
    return Orders.options(**options).remote()  # type: ignore[attr-defined]


def order_of(process: str) -> Order | None:
    """The order for this process; None if there is none, or if no answer comes: then the last one stands."""
    try:
        order: Order | None = ray.get(ray.get_actor(ACTOR).of.remote(process), timeout=ANSWER_S)
    except (RayError, ValueError):  # ValueError: the actor has not started, or is gone
        return None
    return order


class Group(Protocol):
    """The workers of a trial, which wait for an attempt between two of them."""

    @property
    def begun(self) -> bool:
        """Whether all of them work."""

    @property
    def over(self) -> bool:
        """Whether all of them have ended the attempt."""

    def begin(self, assignment: Assignment) -> None:
        """The next polls let all workers begin."""

    def poll(self, stop: bool, within_s: float) -> Sequence[Event]:
        """What they have told since the last poll. A ``Lost`` or ``Failed`` ends the attempt."""

    def close(self) -> None:
        """End their processes, whose state is unknown."""


@dataclass(frozen=True)
class Said:
    """The events of an attempt since the last step. ``over``: it has ended. ``lost``: because it lost a worker."""

    attempt: int
    events: Sequence[Event] = ()
    over: bool = False
    lost: Lost | None = None


class Turn:
    """Runs the attempt that ``ask`` names; without an answer the last one stands."""

    def __init__(self, group: Group, ask: Callable[[], Order | None]) -> None:
        self._group, self._ask = group, ask
        self._order: Order | None = None
        self._attempt = 0  # the number of the attempt that has begun
        self._finished = False

    def step(self) -> Said:
        """One poll."""
        self._order = order = self._ask() or self._order
        if order is None:
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
