"""Whether the workers of a trial still make progress, from the signs of life that each of them counts.

A thread of each worker stores its count in the cluster's key-value store, where the trial's process reads it. The count
is compared, never a clock: the nodes' clocks may differ, and may be set.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ray.experimental import internal_kv

from transformer.processes.alive import signs

NAMESPACE = b"ablate"
PERIODS = 20
"""How often a worker stores its count, and how often it is looked at, within the time that counts as a stall."""
LONGEST_PERIOD_S = 10.0


def period(stall_s: float) -> float:
    """Seconds between two looks, also for a stall of seconds in a test."""
    return min(stall_s / PERIODS, LONGEST_PERIOD_S)


class Teller:
    """The thread of a worker's process that stores its count, for one attempt after another."""

    def __init__(self) -> None:
        self._name, self._every = "", LONGEST_PERIOD_S
        self._changed = threading.Event()
        threading.Thread(target=self._tell, name="signs of life", daemon=True).start()

    @contextmanager
    def telling(self, name: str, stall_s: float) -> Iterator[None]:
        """Within it, the count is stored as ``name``."""
        self._name, self._every = name, period(stall_s)
        self._changed.set()
        try:
            yield
        finally:
            self._name = ""

    def _tell(self) -> None:
        while True:
            if name := self._name:
                with suppress(Exception):  # the cluster's store may be away for a while
                    internal_kv._internal_kv_put(name.encode(), str(signs()).encode(), namespace=NAMESPACE)
                self._changed.wait(self._every)
            else:
                self._changed.wait()
            self._changed.clear()


class Watch:
    """The signs of life of an attempt's workers, as the trial's process sees them.

    Workers wait for each other, so one that hangs silences all. The attempt has stalled when all workers that have not
    finished are silent. Time in which nobody looked does not count: the sweep itself may have been stopped.
    """

    def __init__(self, names: list[str], stall_s: float) -> None:
        self.names, self.stall_s, self.every = names, stall_s, period(stall_s)
        now = time.monotonic()
        self._counts: list[Any] = [None] * len(names)
        self._changed, self._looked = [now] * len(names), now

    def heard(self, rank: int) -> None:
        """An event of this worker arrived."""
        self._changed[rank] = time.monotonic()

    def stalled(self, ranks: list[int]) -> bool:
        """Look at the workers of these ranks; returns whether all have been silent for too long."""
        now = time.monotonic()
        if now - self._looked > self.stall_s / 2:
            self._changed = [now] * len(self.names)
        elif now - self._looked < self.every:
            return False
        self._looked = now
        for rank in ranks:
            if (count := _count(self.names[rank])) != self._counts[rank]:
                self._counts[rank], self._changed[rank] = count, now
        return bool(ranks) and now - max(self._changed[rank] for rank in ranks) > self.stall_s

    def forget(self) -> None:
        """Remove the counts from the cluster's store."""
        for name in self.names:
            with suppress(Exception):
                internal_kv._internal_kv_del(name.encode(), namespace=NAMESPACE)


def _count(name: str) -> Any:
    with suppress(Exception):
        return internal_kv._internal_kv_get(name.encode(), namespace=NAMESPACE)
    return None
