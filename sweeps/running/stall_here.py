"""A trial without Ray that hangs: it fails with its stacks.

The main thread is interrupted if it can be; if it hangs within C code, the process ends.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from sweeps.events import Failed
from sweeps.running.silence import Silence
from sweeps.running.stacks import offer_stacks, stacks_of
from transformer.processes.alive import signs

SIGNAL = signal.SIGUSR1
GRACE_S = 15.0
"""How long the main thread may take to end by itself."""
RECORD_S = 10.0
"""How long it may take to print and record its end."""


class StalledError(RuntimeError):
    """The worker gave no sign of life; a note has its stacks."""


class StallHere:
    """Watches this process.

    If the main thread cannot end, ``say`` prints the failure, ``record`` records it and leaves the study in order.
    """

    def __init__(self, stall_s: float, say: Callable[[Failed], None], record: Callable[[Failed], None]) -> None:
        self.say, self.record = say, record
        self.silence = Silence(1, stall_s, lambda rank: signs())
        self.error: StalledError | None = None
        self._over = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Raises StalledError within it, in the main thread."""
        offer_stacks()
        signal.signal(SIGNAL, self._interrupt)
        threading.Thread(target=self._watch, name="signs of life", daemon=True).start()
        try:
            yield
        finally:
            self._over.set()
            signal.signal(SIGNAL, signal.SIG_IGN)  # one may still come

    def _watch(self) -> None:
        while not self._over.wait(self.silence.every):
            if self.silence.stalled([0]):
                self._end()
                return

    def _end(self) -> None:
        minutes = self.silence.stall_s / 60
        self.error = StalledError(f"no worker gave a sign of life for {minutes:g} min (sweep.stall_minutes)")
        details = stacks_of(os.getpid())
        self.error.add_note(details)
        signal.pthread_kill(threading.main_thread().ident or 0, SIGNAL)
        if not self._over.wait(GRACE_S):
            self._tell(Failed(str(self.error), details))
            os._exit(1)  # the main thread hangs, so nothing else ends the process

    def _tell(self, failed: Failed) -> None:
        """Print and record it side by side, since either the terminal or the folder may be what hangs."""
        threads = [threading.Thread(target=_tried, args=(act, failed), daemon=True) for act in (self.say, self.record)]
        for thread in threads:
            thread.start()
        end = time.monotonic() + RECORD_S
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.error and not self._over.is_set():
            raise self.error


def _tried(act: Callable[[Failed], None], failed: Failed) -> None:
    with suppress(Exception):  # the process ends in any case
        act(failed)
