"""The stacks of a process that hangs, which it writes itself, shortly before it counts as hung.

It may hang within C code that holds Python's lock. Python's fault handler has a thread that needs no lock.
"""

import faulthandler
from pathlib import Path
from typing import IO

from sweeps.processes.alive import signs
from sweeps.running.printed import MOST_BYTES

BEFORE = 0.75
"""After which part of the time without a sign they are written."""
STDERR = 2
HEAD = "Timeout ("
"""The fault handler's first words."""


class StackTimer:
    """Until ``close``, this process writes its stacks unless ``look`` is called and finds signs of life in time."""

    def __init__(self, stall_s: float, file: "IO[bytes] | int") -> None:
        self._stall_s, self._file = stall_s, file
        self._seen: int | None = None

    def look(self) -> None:
        """Start the time again if there were signs of life."""
        if (seen := signs()) != self._seen:
            self._seen = seen
            faulthandler.dump_traceback_later(BEFORE * self._stall_s, file=self._file)

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def stacks_in(log: Path) -> str:
    """The last stacks at the end of what a process of this machine printed; "" if it wrote none."""
    _, head, stacks = log.read_bytes()[-MOST_BYTES:].decode("utf-8", "replace").rpartition(HEAD)
    return head + stacks if head else ""
