"""Whether processes of a trial still make progress, from the signs of life that each of them counts.

A thread of each process stores its count in the cluster's key-value store, where another process reads it. The count
is compared, never a clock: the nodes' clocks may differ, and may be set.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ray.experimental import internal_kv

from sweeps.processes.alive import signs
from sweeps.running.silence import Silence, period
from sweeps.running.stacks import STDERR, StackTimer

NAMESPACE = b"ablate"


class Teller:
    """The thread of a process that stores its count, for one attempt after another."""

    def __init__(self) -> None:
        self._told: tuple[str, float, StackTimer] | None = None
        self._changed = threading.Event()
        threading.Thread(target=self._tell, name="signs of life", daemon=True).start()

    @contextmanager
    def telling(self, name: str, stall_s: float) -> Iterator[None]:
        """Within it, the count is stored as ``name``. Without signs of life the process prints its stacks."""
        stacks = StackTimer(stall_s, STDERR)
        self._told = name, period(stall_s), stacks
        self._changed.set()
        try:
            yield
        finally:
            self._told = None
            stacks.close()

    def _tell(self) -> None:
        while True:
            every = None
            if told := self._told:
                name, every, stacks = told
                stacks.look()
                with suppress(Exception):  # the cluster's store may be away for a while
                    internal_kv._internal_kv_put(name.encode(), str(signs()).encode(), namespace=NAMESPACE)
            self._changed.wait(every)
            self._changed.clear()


class Watch(Silence):
    """The signs of life of an attempt's processes, by their names in the store."""

    def __init__(self, names: list[str], stall_s: float) -> None:
        self.names = names
        super().__init__(len(names), stall_s, lambda rank: _count(names[rank]))

    def forget(self) -> None:
        """Remove the counts from the cluster's store."""
        for name in self.names:
            with suppress(Exception):
                internal_kv._internal_kv_del(name.encode(), namespace=NAMESPACE)


def _count(name: str) -> Any:
    with suppress(Exception):
        return internal_kv._internal_kv_get(name.encode(), namespace=NAMESPACE)
    return None
