"""Whether the workers of a trial are silent: all of them, for too long."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from sweeps.running.times import LONGEST_LOOK_S, STARTING_S

PERIODS = 20
"""How often a worker's count is looked at within the time that counts as a stall."""


def period(stall_s: float) -> float:
    """Seconds between two looks, also for a stall of seconds in a test."""
    return min(stall_s / PERIODS, LONGEST_LOOK_S)


class Silence:
    """How long ago the count of each worker changed; ``count`` gives that of a rank.

    Workers wait for each other, so one that hangs silences all. The attempt has stalled when all unfinished workers
    are silent. Time in which nobody looked does not count: the sweep itself may have been stopped. Before the
    first sign of any worker, ``STARTING_S`` is allowed.
    """

    def __init__(self, workers: int, stall_s: float, count: Callable[[int], Any]) -> None:
        self.stall_s, self.every, self._count = stall_s, period(stall_s), count
        self._allowed_s = max(stall_s, STARTING_S)
        now = time.monotonic()
        self._counts = [count(rank) for rank in range(workers)]
        self._changed, self._looked = [now] * workers, now

    def heard(self, rank: int) -> None:
        """An event of this worker arrived."""
        self._changed[rank], self._allowed_s = time.monotonic(), self.stall_s

    def stalled(self, ranks: Sequence[int]) -> bool:
        """Look at the workers of these ranks; returns whether all have been silent for too long."""
        now = time.monotonic()
        if now - self._looked > self.stall_s / 2:
            self._changed = [now] * len(self._changed)
        elif now - self._looked < self.every:
            return False
        self._looked = now
        for rank in ranks:
            before, self._counts[rank] = self._counts[rank], self._count(rank)
            if self._counts[rank] == before:
                continue
            self._changed[rank] = now
            if before is not None:  # its first sign comes before it imports torch
                self.heard(rank)
        return bool(ranks) and now - max(self._changed[rank] for rank in ranks) > self._allowed_s
