"""Ctrl-C and SIGTERM: once, trials finish their step, save a checkpoint and leave; twice, this process leaves now."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONCE = "Stopping after the current step, with a checkpoint. Ctrl-C again leaves at once."


class Interrupted(KeyboardInterrupt):
    """A run was ended from outside: by which signal, and a line on each trial that was running."""

    def __init__(self, number: int, lines: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.number, self.lines = number, lines

    @property
    def exit_code(self) -> int:
        """As a shell reports it: 130 after Ctrl-C, 143 after SIGTERM."""
        return 128 + self.number


class Stopping:
    """Which signal asked this process to stop, if any did."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._gentle = False

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
            raise self.told(error, ()) from None
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

    def interrupted(self, lines: tuple[str, ...]) -> Interrupted:
        """What to raise when the trials have left, with a line on each."""
        return Interrupted(self.number or signal.SIGINT, lines)

    def told(self, error: KeyboardInterrupt, lines: tuple[str, ...]) -> Interrupted:
        """The same error with these lines, if it has none: Ray turns one that meets it in a call into a bare one."""
        known = error.lines if isinstance(error, Interrupted) else ()
        return self.interrupted(known or lines)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.number = self.requested(), number
        if again or not self._gentle:
            raise Interrupted(number)
