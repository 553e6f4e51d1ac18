"""The trials that run, and whether their own processes do: one that is stopped would hold up its workers for ever."""

import itertools
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import ray
from ray._private import state
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Lost
from sweeps.running.signs_of_life import Teller, Watch


def sign_of(run: str, attempt: int) -> str:
    """Under which the process of this attempt stores its signs of life; ``run`` is that of its assignment."""
    return f"trial-{run}-{attempt}"


@cache
def teller() -> Teller:
    """Of this process, which has one trial after another. Each sign is another one."""
    count = itertools.count()
    return Teller(lambda: next(count))


class RunningTrials:
    """By name: the trials whose attempt runs, and the processes (Ray actors) that Tune waits for.

    Tune waits for a process from before the attempt begins, when it takes over that of an earlier trial, until after
    the attempt has ended.
    """

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._names: set[str] = set()
        self._watched: dict[str, tuple[Watch, Any]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __bool__(self) -> bool:
        return bool(self._names)

    def take_over(self, name: str, actor: Any) -> None:
        """The trial takes over the process of an earlier one, which answers at once unless it hangs."""
        if name not in self._watched:
            self._watched[name] = Watch([f"none-{name}"], self._stall_s), actor

    def add(self, name: str, sign: str, actor: Any) -> None:
        """An attempt begins."""
        self.left(name)
        self._names.add(name)
        self._watched[name] = Watch([sign], self._stall_s), actor

    def discard(self, name: str) -> None:
        """The attempt is over, but its process has yet to return."""
        self._names.discard(name)

    def left(self, name: str) -> None:
        """Its process has returned or died."""
        self.discard(name)
        if watched := self._watched.pop(name, None):
            watched[0].forget()

    def hung(self) -> Iterator[tuple[str, Lost]]:
        """Those whose process gave no sign for too long. It is killed, and Tune notices that."""
        for name, (watch, actor) in self._watched.items():
            if watch.stalled([0]) and (pid := _killed(actor)):
                watch.heard(0)  # so that it is not killed again before another such time
                silent = f"gave no sign of life for {self._stall_s / 60:g} min (sweep.stall_minutes)"
                yield name, Lost(f"the trial's process (pid {pid}) {silent}", "")


def _killed(actor: Any) -> int | None:
    """Kill the actor's process, which need not answer; returns its pid. None if Ray does not know that now."""
    with suppress(Exception):  # the cluster's store may be away for a while
        known = state.actors(actor._actor_id.hex())
        if known["State"] != "ALIVE":
            return None
        where = NodeAffinitySchedulingStrategy(known["Address"]["NodeID"], soft=False)
        _kill.options(scheduling_strategy=where).remote(known["Pid"])
        return int(known["Pid"])
    return None


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
