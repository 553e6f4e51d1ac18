"""The trials that run, and whether their own processes do: one that is stopped would hold up its workers for ever."""

import itertools
import os
import signal
from collections.abc import Iterator
from functools import cache

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.events import Lost
from sweeps.running.signs_of_life import Teller, Watch


def sign_of(run: str, attempt: int) -> str:
    """Under which the process of this attempt stores its signs of life; ``run`` is that of its assignment."""
    return f"trial-{run}-{attempt}"


@cache
def teller() -> Teller:
    """Of this process, which has one trial after another. Each sign is another one, and names this process."""
    node, count = ray.get_runtime_context().get_node_id(), itertools.count()
    return Teller(lambda: f"{os.getpid()} {node} {next(count)}")


class RunningTrials:
    """By name. The sweep's process adds a trial when its attempt begins, and discards it when that ends."""

    def __init__(self, stall_s: float) -> None:
        self._stall_s = stall_s
        self._watches: dict[str, Watch] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._watches

    def __bool__(self) -> bool:
        return bool(self._watches)

    def add(self, name: str, sign: str) -> None:
        self._watches[name] = Watch([sign], self._stall_s)

    def discard(self, name: str) -> None:
        if watch := self._watches.pop(name, None):
            watch.forget()

    def hung(self) -> Iterator[tuple[str, Lost]]:
        """Those whose process gave no sign for too long. It is killed, and Tune notices that."""
        for name, watch in self._watches.items():
            if watch.stalled([0]) and (sign := watch.last(0)):
                pid, node, _ = sign.split()
                where = NodeAffinitySchedulingStrategy(node, soft=False)
                _kill.options(scheduling_strategy=where).remote(int(pid))
                watch.heard(0)  # so that it is not killed again before another such time
                silent = f"gave no sign of life for {self._stall_s / 60:g} min (sweep.stall_minutes)"
                yield name, Lost(f"the trial's process (pid {pid}) {silent}", "")


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
