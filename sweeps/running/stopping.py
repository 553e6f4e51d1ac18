"""Ctrl-C, other signals and `allelse stop`: trials finish their step and save a checkpoint.

A second signal ends this process.
"""

import os
import signal
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from sweeps.processes.interruption import Interrupted
from sweeps.processes.streams import discard
from sweeps.processes.times import ECHO_S, LEAVING_S, LOOK_FOR_STOPS_S
from tracking.activity.runners import (
    BEAT_S,
    Runner,
    announce,
    request_stop,
    stop_request,
    withdraw,
)
from tracking.attempts import own_process
from tracking.shell import shell_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Slurm and submitit announce the end of a job by SIGUSR1 or SIGUSR2."""
STOPS = "Stopping after the current step, with a checkpoint. Press Ctrl-C again to quit at once."
STOPPED_BY = (
    "{fault}. Stopping after the current step, with a checkpoint. Press Ctrl-C to quit at once."
)


class Stopping:
    """Who asked the sweep to stop, all of it or single trials, and what its trials wait for."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.requested_all = False  # by `allelse stop`, to stop everything
        # trials that were asked to stop one by one, by name
        self.trials: frozenset[str] = frozenset()
        self.waiting = ""  # what the trials wait for, if they do
        self.seconds_left: float | None = None  # until the last trial ends, extrapolated
        self.fault = ""  # why the sweep stops by itself
        self._gentle = False
        self._at_once = False
        self._since = 0.0
        self._lines: tuple[str, ...] = ()  # kept once set: a second signal brings none

    def requested(self) -> bool:
        """Whether all trials should stop."""
        return self.number is not None

    def requested_for(self, trial: str) -> bool:
        return self.requested() or trial in self.trials

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it each signal raises Interrupted. A signal that this process already ignores
        stays ignored."""
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            self.install()
            yield
        except KeyboardInterrupt as error:
            raise self.with_lines(error, ()) from None
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Handle the signals here; repeat it after ``ray.init``, which may install a SIGTERM handler
        of its own."""
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    @contextmanager
    def gentle(self) -> Iterator[None]:
        """Within it the first signal raises nothing: it only asks the trials to stop."""
        self._gentle = True
        try:
            yield
        finally:
            self._gentle = False

    def note(self, number: int) -> bool:
        """Record a signal; False if it is only the echo of the signal before."""
        again = self.requested()
        received = time.monotonic()
        if again and number in (self.number, signal.SIGHUP) and received - self._since < ECHO_S:
            return False
        self.number = number
        self._since = received
        self._at_once = again
        return True

    def end(self, fault: str) -> None:
        """Ask all trials to stop, as SIGTERM does, for this reason."""
        if not self.requested():
            self.fault = fault
            self.note(signal.SIGTERM)

    def interrupted(self, lines: tuple[str, ...]) -> Interrupted:
        """The exception to raise once the trials have stopped, with one line per trial."""
        self._lines = lines or self._lines
        number = signal.SIGINT if self.requested_all or self.number is None else self.number
        return Interrupted(number, self._lines, self._at_once, self.fault)

    def with_lines(self, error: KeyboardInterrupt, lines: tuple[str, ...]) -> Interrupted:
        """The same interruption, with these lines if it has none: within a call, Ray replaces ours
        by a bare one."""
        own_lines = error.lines if isinstance(error, Interrupted) else ()
        return self.interrupted(own_lines or lines)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        again = self.requested()
        if self.note(number) and (again or not self._gentle):
            raise self.interrupted(())


def _leave_closed_terminal() -> None:
    """Discard output to a closed terminal: an error of writing would end the trials that are
    stopping."""
    for descriptor in (1, 2):
        with suppress(OSError):  # it may be closed
            if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
                discard(descriptor)


@contextmanager
def announced(
    study: Path, trials: Sequence[str], command: Sequence[str], stopping: Stopping
) -> Iterator[None]:
    """Within it, other processes see who runs these trials and may request a stop. Their locks must
    be held."""
    began = time.time()
    runner = Runner(
        own_process(), shell_line(["allelse", *command[1:]]), tuple(trials), began, began
    )
    announcement = Announcement(study, runner, stopping)
    try:
        withdraw(study, runner)  # also what killed processes left
        announcement.beat()
        announcement.start()
        yield
    finally:
        announcement.end()


def leave_study(study: Path) -> None:
    """For a process that cannot leave ``open_study``: withdraw, since other machines cannot know
    its end."""
    for thread in threading.enumerate():
        if isinstance(thread, Announcement) and thread.study == study:
            thread.end(LEAVING_S)


class Announcement(threading.Thread):
    """Writes the record every ``BEAT_S`` seconds, and when what the trials wait for changes."""

    def __init__(self, study: Path, runner: Runner, stopping: Stopping) -> None:
        super().__init__(name="announcement", daemon=True)
        self.study = study
        self.runner = runner
        self.stopping = stopping
        self._written = 0.0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(LOOK_FOR_STOPS_S):
            if (
                time.monotonic() - self._written > BEAT_S
                or self.runner.waiting != self.stopping.waiting
            ):
                self.beat()
            self._take_requests()

    def end(self, patience: float | None = None) -> None:
        """Withdraw, after what the thread is writing; at the latest after ``patience`` seconds: the
        folder may hang."""
        self._ended.set()
        if self.is_alive():
            self.join(patience)
        withdraw(self.study, self.runner)

    def beat(self) -> None:
        waiting = self.stopping.waiting
        seconds_left = self.stopping.seconds_left
        self.runner = replace(self.runner, seen=time.time(), waiting=waiting, left=seconds_left)
        with suppress(OSError):  # a full disk: the next beat writes it
            announce(self.study, self.runner)
        self._written = time.monotonic()

    def _take_requests(self) -> None:
        request = stop_request(self.study, self.runner)
        if request.everything and not self.stopping.requested():
            self.stopping.requested_all = True
            _stop_this_process()
        elif not request.everything:
            self.stopping.trials = request.trials
            if self.stopping.requested():
                # by a signal or a fault: show other processes that this one stops
                with suppress(OSError):  # the next look writes it
                    request_stop(self.study, self.runner, None)


def _stop_this_process() -> None:
    """As Ctrl-C does. A process in the background of a script ignores SIGINT."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)
