"""A hang: no worker of a trial gives a sign of life for too long. Shortly before, each has written its stacks."""

import faulthandler
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

from sweeps.events import Failed
from sweeps.processes.alive import signs
from sweeps.processes.times import CLEANING_S, LOOK_FOR_SIGNS_S, STARTING_S

STDERR = 2
STACKS_AFTER = 0.75
"""After which part of the time without a sign the stacks are written."""


def silent(stall_s: float) -> str:
    """The cause of an end by a hang."""
    return f"no worker gave a sign of life for {stall_s / 60:g} min (sweep.stall_minutes)"


class Silence:
    """How long no worker has given a sign of life.

    Workers wait for each other, so one that hangs silences all. Time in which nobody looked does not count: the sweep
    itself may have been stopped. Before the first sign of any worker, ``STARTING_S`` is allowed.
    """

    def __init__(self, stall_s: float, signs: Sequence[int | None] = ()) -> None:
        self._stall_s, self._allowed_s = stall_s, max(stall_s, STARTING_S)
        self._signs = signs
        self._silent_s, self._looked = 0.0, time.monotonic()

    def heard(self) -> None:
        """A worker has told something, so its work has begun."""
        self._allowed_s = self._stall_s

    def stalled(self, signs: Sequence[int | None]) -> bool:
        """Look at the signs of all unfinished workers so far, None for one that never answered."""
        before, self._signs = self._signs, signs
        since, self._looked = self._looked, time.monotonic()
        if before != signs:
            self._silent_s = 0.0
            if any(each is not None and each != now for each, now in zip(before, signs, strict=False)):
                self.heard()
        elif self._looked - since <= self._stall_s / 2:
            self._silent_s += self._looked - since
        return self._silent_s > self._allowed_s


class StackTimer:
    """Until ``close``, this process writes its stacks unless ``look`` is called and finds signs of life in time.

    It may hang within C code that holds Python's lock. Python's fault handler has a thread that needs no lock.
    """

    def __init__(self, stall_s: float, file: "IO[bytes] | int") -> None:
        self._after_s, self._file = STACKS_AFTER * stall_s, file
        self._seen: int | None = None

    def look(self) -> None:
        """Start the time again if there were signs of life."""
        if (seen := signs()) != self._seen:
            self._seen = seen
            faulthandler.dump_traceback_later(self._after_s, file=self._file)

    def close(self) -> None:
        faulthandler.cancel_dump_traceback_later()


@contextmanager
def ended_if_it_hangs(stall_s: float, log: Path, tell: Callable[[Failed], None]) -> Iterator[None]:
    """Within it, a hang ends this process: the stacks go to ``log``, and ``tell`` gets the failure.

    The main thread may hang within C code, so it cannot end in order.
    """
    over, failed = threading.Event(), Failed(silent(stall_s), "log.txt has its stacks.")

    def watch() -> None:
        silence = Silence(stall_s, [signs()])
        with _opened(log) as file, closing(StackTimer(stall_s, file)) as stacks:
            while not over.wait(LOOK_FOR_SIGNS_S):
                stacks.look()
                if silence.stalled([signs()]) and not over.is_set():
                    _end_after(partial(tell, failed))

    threading.Thread(target=watch, name="signs of life", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _opened(log: Path) -> IO[bytes]:
    """On a full disk, the stacks go to the terminal."""
    try:
        return log.open("ab")
    except OSError:
        return os.fdopen(os.dup(STDERR), "wb")


def _end_after(act: Callable[[], None]) -> None:
    """End this process; the terminal or the folder may be what hangs."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(CLEANING_S)
    os._exit(1)
