"""The bell that tells the workers of a sweep to stop, and the thread of a worker that listens to it.

The workers import this. It needs no Ray Tune, so they start a second sooner.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ANSWER_S = 5.0
"""How long to wait for the bell's answer."""
LISTEN_S = 10.0
"""How long one call to the bell may wait."""


@ray.remote(num_cpus=0)
class Bell:
    """Tells the workers on all nodes to stop."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def ring(self) -> None:
        self.rung.set()

    async def is_rung(self, within: float = 0.0) -> bool:
        """Returns once the bell is rung, after ``within`` seconds at the latest. Ray runs 1000 calls at a time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.rung.wait(), within)
        return self.rung.is_set()


def start_bell() -> Any:
    """A bell on this process's node, so that it survives the death of any other node."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Bell.options(scheduling_strategy=here).remote()  # type: ignore[attr-defined]


def is_rung(bell: Any, within: float = 0.0) -> bool:
    """A bell that does not answer was not rung: training continues without it."""
    try:
        return bool(ray.get(bell.is_rung.remote(within), timeout=within + ANSWER_S))
    except RayError:
        return False


def listener(bell: Any) -> Callable[[], bool]:
    """A function that returns whether the bell was rung. A thread waits for it: this one is busy training."""
    rung = threading.Event()

    def wait() -> None:
        asked = time.monotonic()
        while not is_rung(bell, LISTEN_S):
            time.sleep(max(0.0, asked + LISTEN_S - time.monotonic()))  # a dead bell fails at once
            asked = time.monotonic()
        rung.set()

    threading.Thread(target=wait, daemon=True).start()
    return rung.is_set
