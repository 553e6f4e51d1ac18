"""The bell that tells the workers of a sweep to stop, and the thread of a worker that listens to it.

The workers import this. It needs no Ray Tune, so they start a second sooner.
"""

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ALL = ""
ANSWER_S = 5.0
"""How long to wait for the bell's answer."""
LISTEN_S = 10.0
"""How long one call to the bell may wait."""


@ray.remote(num_cpus=0)
class Bell:
    """Tells the workers on all nodes to stop."""

    def __init__(self) -> None:
        self.rung: set[str] = set()
        self.news = asyncio.Event()

    async def ring(self, key: str = ALL) -> None:
        """For all trials, or for the one with this key. Again, it wakes nobody."""
        if key in self.rung:
            return
        self.rung.add(key)
        self.news.set()
        self.news = asyncio.Event()

    async def for_whom(self, known: int = 0, within: float = 0.0) -> list[str]:
        """For whom it was rung, once these are more than ``known``, after ``within`` seconds at the latest.

        Ray runs 1000 calls at a time."""
        if len(self.rung) <= known:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), within)
        return sorted(self.rung)


def start_bell() -> Any:
    """A bell on this process's node, so that it survives the death of any other node.

    If its process dies, another one takes its place, which does not know for whom it was rung.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Bell.options(scheduling_strategy=here, max_restarts=-1).remote()  # type: ignore[attr-defined]


def is_rung(bell: Any, key: str = ALL) -> bool:
    """Whether it was rung for all, or for the trial with this key."""
    return not {ALL, key}.isdisjoint(_for_whom(bell))


def _for_whom(bell: Any, known: int = 0, within: float = 0.0) -> list[str]:
    """A bell that does not answer was not rung: training continues without it."""
    try:
        return list(ray.get(bell.for_whom.remote(known, within), timeout=within + ANSWER_S))
    except RayError:
        return []


class Listener:
    """Whether the bell was rung for the trial ``key``, which changes. A thread waits for it: this one is busy."""

    def __init__(self, bell: Any) -> None:
        self.key, self._bell, self._rung = ALL, bell, frozenset[str]()
        threading.Thread(target=self._wait, daemon=True).start()

    def __call__(self) -> bool:
        return not self._rung.isdisjoint((ALL, self.key))

    def _wait(self) -> None:
        while ALL not in self._rung:
            asked, known = time.monotonic(), len(self._rung)
            self._rung |= frozenset(_for_whom(self._bell, known, LISTEN_S))
            if len(self._rung) == known:
                time.sleep(max(0.0, asked + LISTEN_S - time.monotonic()))  # a dead bell fails at once
