"""Keeps the record of this process in the study's folder while it runs trials, and takes requests to stop."""

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sweeps.processes.times import LEAVING_S, LOOK_FOR_STOPS_S
from sweeps.running.stopping import Stopping
from tracking.attempts import own_process
from tracking.liveness import BEAT_S, Runner, announce, request_stop, stop_requests, withdraw
from tracking.words import shell_line


@contextmanager
def announced(study: Path, trials: Sequence[str], command: Sequence[str], stopping: Stopping) -> Iterator[None]:
    """Within it others see that this process runs these trials, and may ask it to stop. Their locks must be held."""
    now = time.time()
    runner = Runner(own_process(), shell_line(["allelse", *command[1:]]), tuple(trials), now, now)
    announcement = Announcement(study, runner, stopping)
    try:
        withdraw(study, runner)  # also what killed processes left
        announcement.beat()
        announcement.start()
        yield
    finally:
        announcement.end()


def leave_study(study: Path) -> None:
    """For a process that cannot leave ``open_study``: withdraw, since other machines cannot know its end."""
    for thread in threading.enumerate():
        if isinstance(thread, Announcement) and thread.study == study:
            thread.end(LEAVING_S)


class Announcement(threading.Thread):
    """Writes the record every ``BEAT_S`` seconds, and when what the trials wait for changes."""

    def __init__(self, study: Path, runner: Runner, stopping: Stopping) -> None:
        super().__init__(name="announcement", daemon=True)
        self.study, self.runner, self.stopping = study, runner, stopping
        self._written, self._ended = 0.0, threading.Event()

    def run(self) -> None:
        while not self._ended.wait(LOOK_FOR_STOPS_S):
            if time.monotonic() - self._written > BEAT_S or self.runner.waiting != self.stopping.waiting:
                self.beat()
            self._take_requests()

    def end(self, patience: float | None = None) -> None:
        """Withdraw, after what the thread is writing; at the latest after ``patience`` seconds: the folder may hang."""
        self._ended.set()
        if self.is_alive():
            self.join(patience)
        withdraw(self.study, self.runner)

    def beat(self) -> None:
        """Write the record."""
        waiting, left = self.stopping.waiting, self.stopping.seconds_left
        self.runner = replace(self.runner, seen=time.time(), waiting=waiting, left=left)
        with suppress(OSError):  # a full disk: the next beat writes it
            announce(self.study, self.runner)
        self._written = time.monotonic()

    def _take_requests(self) -> None:
        asked = stop_requests(self.study, self.runner)
        if asked is None and not self.stopping.requested():
            self.stopping.asked = True
            _stop_this_process()
        elif asked is not None:
            self.stopping.trials = frozenset(asked)
            if self.stopping.requested():  # by a signal or a fault: tell others that this process stops
                with suppress(OSError):  # the next look writes it
                    request_stop(self.study, self.runner, None)


def _stop_this_process() -> None:
    """As Ctrl-C does. A process in the background of a script ignores SIGINT."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)
