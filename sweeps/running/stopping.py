"""Ctrl-C and SIGTERM: once, trials finish their step, save a checkpoint and leave; twice, this process leaves now."""

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_S = 0.5  # timeout(1) and a shell that closes send the same signal twice: to the process, then to its group
ONCE = "Stopping after the current step, with a checkpoint. Ctrl-C again leaves at once."


class Interrupted(KeyboardInterrupt):
    """A run was ended from outside: by which signal, and a line on each trial that was running.

    ``at_once`` is set by a further signal: then nothing more is waited for.
    """

    def __init__(self, number: int, lines: tuple[str, ...] = (), at_once: bool = False) -> None:
        super().__init__()
        self.number, self.lines, self.at_once = number, lines, at_once

    @property
    def exit_code(self) -> int:
        """As a shell reports it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number


class Stopping:
    """Which signal asked this process to stop, if any did."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._gentle = self._at_once = False
        self._since = 0.0
        self._lines: tuple[str, ...] = ()  # told once, they are kept: a further signal knows none

    def requested(self) -> bool:
        """Whether trials are to stop."""
        return self.number is not None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it each of the signals raises Interrupted. What this process was told to ignore stays ignored."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            self.install()
            yield
        except KeyboardInterrupt as error:
            raise self.with_lines(error, ()) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Handle the signals here; to be repeated after ``ray.init``, which takes SIGTERM for itself."""
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    @contextmanager
    def gentle(self) -> Iterator[None]:
        """Within it the first signal only asks the trials to stop."""
        self._gentle = True
        try:
            yield
        finally:
            self._gentle = False

    def note(self, number: int) -> bool:
        """A signal has come; False if it is only the echo of the one before."""
        again, now = self.requested(), time.monotonic()
        if number == self.number and now - self._since < ECHO_S:
            return False
        self.number, self._since, self._at_once = number, now, again
        return True

    def interrupted(self, lines: tuple[str, ...]) -> Interrupted:
        """What to raise when the trials have left, with a line on each."""
        self._lines = lines or self._lines
        return Interrupted(self.number or signal.SIGINT, self._lines, self._at_once)

    def with_lines(self, error: KeyboardInterrupt, lines: tuple[str, ...]) -> Interrupted:
        """The same error with these lines, if it has none: Ray turns one that meets it in a call into a bare one."""
        known = error.lines if isinstance(error, Interrupted) else ()
        return self.interrupted(known or lines)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        again = self.requested()
        if self.note(number) and (again or not self._gentle):
            raise self.interrupted(())


def _leave_closed_terminal() -> None:
    """Output to a terminal that was closed goes nowhere: as an error it would end the trials that stop."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)


@contextmanager
def held() -> Iterator[None]:
    """Within it the signals wait; in a process that is started here they wait for ever."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
