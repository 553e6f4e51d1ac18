"""What the process of each trial is to do. One named actor holds it, and each process asks it before every poll.

The actor's process imports this alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.processes.times import ANSWER_S, POLL_S
from sweeps.worker.events import Assignment

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
