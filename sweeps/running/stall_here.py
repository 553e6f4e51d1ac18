"""A trial without Ray that hangs: its stacks go to its log, it fails, and this process ends."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO

from sweeps.events import Failed
from sweeps.processes.alive import signs
from sweeps.running.silence import Silence
from sweeps.running.stacks import STDERR, StackTimer
from sweeps.running.times import CLEANING_S


class StallHere:
    """Watches this process. The main thread may hang within C code, so it cannot end in order.

    ``tell`` prints and records the failure, and leaves the study in order.
    """

    def __init__(self, stall_s: float, log: Path, tell: Callable[[Failed], None]) -> None:
        self._stall_s, self._log, self._tell = stall_s, log, tell
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it, a hang ends the process."""
        threading.Thread(target=self._watch, name="signs of life", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()

    def _watch(self) -> None:
        silence = Silence(1, self._stall_s, lambda rank: signs())
        with ExitStack() as stack:
            stacks = stack.enter_context(closing(StackTimer(self._stall_s, self._opened(stack))))
            while not self._over.wait(silence.every):
                stacks.look()
                if silence.stalled([0]) and not self._over.is_set():
                    self._end()

    def _opened(self, stack: ExitStack) -> "IO[bytes] | int":
        """The trial's log; on a full disk the terminal."""
        with suppress(OSError):
            return stack.enter_context(self._log.open("ab"))
        return STDERR

    def _end(self) -> None:
        cause = f"no worker gave a sign of life for {self._stall_s / 60:g} min (sweep.stall_minutes)"
        failed = Failed(cause, "log.txt has its stacks.")
        thread = threading.Thread(target=self._tell, args=(failed,), daemon=True)
        thread.start()
        thread.join(CLEANING_S)  # the terminal or the folder may be what hangs
        os._exit(1)
