"""Whether the workers of a trial are silent: all of them, for too long."""

import time
from collections.abc import Callable, Sequence
from typing import Any

PERIODS = 20
"""How often a worker's count is looked at within the time that counts as a stall."""
LONGEST_PERIOD_S = 10.0


def period(stall_s: float) -> float:
    """Seconds between two looks, also for a stall of seconds in a test."""
    return min(stall_s / PERIODS, LONGEST_PERIOD_S)


class Silence:
    """How long ago the count of each worker changed; ``count`` gives that of a rank.

    Workers wait for each other, so one that hangs silences all. The attempt has stalled when all workers that have not
    finished are silent. Time in which nobody looked does not count: the sweep itself may have been stopped.
    """

    def __init__(self, workers: int, stall_s: float, count: Callable[[int], Any]) -> None:
        self.stall_s, self.every, self._count = stall_s, period(stall_s), count
        now = time.monotonic()
        self._counts: list[Any] = [None] * workers
        self._changed, self._looked = [now] * workers, now

    def heard(self, rank: int) -> None:
        """An event of this worker arrived."""
        self._changed[rank] = time.monotonic()

    def stalled(self, ranks: Sequence[int]) -> bool:
        """Look at the workers of these ranks; returns whether all have been silent for too long."""
        now = time.monotonic()
        if now - self._looked > self.stall_s / 2:
            self._changed = [now] * len(self._changed)
        elif now - self._looked < self.every:
            return False
        self._looked = now
        for rank in ranks:
            if (count := self._count(rank)) != self._counts[rank]:
                self._counts[rank], self._changed[rank] = count, now
        return bool(ranks) and now - max(self._changed[rank] for rank in ranks) > self.stall_s
