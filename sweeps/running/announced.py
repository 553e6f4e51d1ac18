"""Announces this process in the study's folder while it runs trials, and takes requests to stop from there."""

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from sweeps.running.stopping import Stopping
from tracking.process import own_birth
from tracking.runners import BEAT_S, Runner, announce, request_stop, stop_requests, withdraw

LOOK_S = 1.0
"""How often to look for requests: a small file on a folder that may be shared."""
WRITING_S = 5.0
"""How long a process that ends at once waits for its announcement that is being written: its folder may hang."""
_leaving, _writing = threading.Event(), threading.Lock()


@contextmanager
def announced(study: Path, trials: list[str], stopping: Stopping) -> Iterator[None]:
    """Within it others see that this process runs these trials, and may ask it to stop."""
    _leaving.clear()
    announcement = Announcement(study, trials, stopping)
    thread = threading.Thread(target=announcement.repeat, name="announcement", daemon=True)
    thread.start()
    try:
        yield
    finally:
        announcement.ended.set()
        thread.join()
        withdraw_own(study)


def withdraw_for_good(study: Path) -> None:
    """For a process that ends at once, while its announcement is still repeated."""
    _leaving.set()
    written = _writing.acquire(timeout=WRITING_S)
    withdraw_own(study)
    if written:
        _writing.release()


def withdraw_own(study: Path) -> None:
    """Remove the files of this process, and of those that are gone. A fault of storage changes nothing else."""
    with suppress(OSError):
        withdraw(study, _runner())


def _runner(trials: tuple[str, ...] = ()) -> Runner:
    now = time.time()
    return Runner(socket.gethostname(), os.getpid(), now, now, trials, birth=own_birth())


class Announcement:
    """The runner's file, rewritten every ``BEAT_S`` seconds and when what it waits for changes."""

    def __init__(self, study: Path, trials: list[str], stopping: Stopping) -> None:
        self.study, self.stopping, self.ended = study, stopping, threading.Event()
        self.runner = _runner(tuple(trials))
        self._written = 0.0
        withdraw_own(study)  # what an earlier process with this id left, such as a request to stop
        self._beat()

    def repeat(self) -> None:
        while not self.ended.wait(LOOK_S):
            if time.monotonic() - self._written > BEAT_S or self.runner.waiting != self.stopping.waiting:
                self._beat()
            self._take_requests()

    def _beat(self) -> None:
        waiting, left = self.stopping.waiting, self.stopping.seconds_left
        self.runner = replace(self.runner, seen=time.time(), waiting=waiting, left=left)
        with _writing, suppress(OSError):  # a full disk: the next beat writes it
            if not _leaving.is_set():
                announce(self.study, self.runner)
        self._written = time.monotonic()

    def _take_requests(self) -> None:
        asked = stop_requests(self.study, self.runner)
        if asked is None and not self.stopping.requested():
            self.stopping.asked = True
            _stop_this_process()
        elif asked is not None:
            self.stopping.trials = frozenset(asked)
            if self.stopping.requested():
                self._tell_others()

    def _tell_others(self) -> None:
        """That this process stops, which a signal or a fault asked for."""
        with _writing, suppress(OSError):  # the next look writes it
            if not _leaving.is_set():
                request_stop(self.study, self.runner, None)


def _stop_this_process() -> None:
    """As Ctrl-C does. A process in the background of a script ignores SIGINT."""
    ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGTERM if ignored else signal.SIGINT)
