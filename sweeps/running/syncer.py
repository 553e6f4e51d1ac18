"""The process that syncs a study's journals to MLflow, while a plan runs and at its end."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rich.console import Console

from sweeps.config.settings import Settings
from sweeps.console import print_line
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import by_name, placed
from sweeps.processes.interruption import Interrupted
from sweeps.processes.times import CARRYING_S, FIRST_PAUSE_S, LONGEST_PAUSE_S, SYNCER_ENDS_S
from tracking.shell import quoted
from tracking.uri import URI_VARIABLE, without_password


def sync_command(settings: Settings) -> list[str]:
    """The command that carries the study's journals to MLflow once; with `--follow`, until its
    stdin ends.

    Run it in `sync_environment()`, which holds the address.
    """
    experiment = settings.tracking.experiment
    options = [] if experiment is None else ["--experiment", experiment]
    return [
        sys.executable,
        "-P",
        "-m",
        "tracking.mlflow.sync",
        "--study",
        str(settings.study_folder),
        *options,
    ]


def sync_environment(uri: str | None) -> dict[str, str]:
    """With the store's address; None means the default store."""
    return os.environ | {URI_VARIABLE: uri or ""}


@contextmanager
def syncing(settings: Settings, console: Console) -> Iterator[None]:
    """A process that syncs the study's journals to MLflow; at the end, wait until it has sent
    everything.

    A run that is left at once does not wait: `allelse sync` carries the rest.
    """
    syncer = Syncer(settings, console)
    patience = CARRYING_S
    try:
        yield
    except Interrupted as error:
        patience = 0.0 if error.at_once else CARRYING_S
        raise
    finally:
        with console.status("Syncing the last results to MLflow"):
            carried = syncer.close(patience)
        if not carried:
            print_line(console, f"MLflow is not up to date; {_sync_advice(settings)}")


def _sync_advice(settings: Settings) -> str:
    study = settings.study_folder.resolve()
    tracking = settings.tracking
    # of the last store, all but the password is known
    public_uri = without_password(tracking.uri or "")
    options: list[str] = []
    if public_uri != (tracking.uri or ""):
        options.append(f"tracking.uri={quoted(public_uri)}")
    if tracking.experiment is not None:
        options.append(f"tracking.experiment={quoted(tracking.experiment)}")
    return f"run `{command('sync', by_name(study), *placed(study), *options)}`"


class Syncer:
    """The process, restarted whenever it ends early, so that MLflow follows a sweep of days.

    There are never two: a thread waits for one to end before it starts the next. The next one
    carries the rest, because the journals are on disk.
    """

    def __init__(self, settings: Settings, console: Console) -> None:
        self._settings = settings
        self._console = console
        self._closing = threading.Event()
        self._lock = threading.Lock()  # of the process: none may start after ``close``
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep_alive, name="syncer", daemon=True)
        self._thread.start()

    def close(self, patience: float) -> bool:
        """Announce the end, and wait ``patience`` seconds; returns whether everything was carried.

        Another sweep of this study may hold the syncer's lock for a long time: then it carries our
        journals too.
        """
        with self._lock:
            self._closing.set()
            if self._process.poll() is not None:  # dead, and not restarted yet
                try:
                    self._process = self._start()
                except OSError:  # no memory for a process: the sweep's own end counts more
                    return False
            process = self._process
        assert process.stdin
        process.stdin.close()
        try:
            return process.wait(timeout=patience) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            _end(process)  # if it still runs, also after a signal ended the wait

    def _start(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*sync_command(self._settings), "--follow"],
            env=sync_environment(self._settings.tracking.uri),
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us; the process ends with its stdin
        )

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE_S
        while True:
            code = self._process.wait()
            if self._closing.is_set():
                return
            fault = f"The process that syncs journals to MLflow ended with {_ending(code)}"
            print_line(self._console, f"{fault}; it starts again in {pause:g} s")
            if self._closing.wait(pause) or not self._start_again():
                return
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _start_again(self) -> bool:
        with self._lock:
            if self._closing.is_set():
                return False
            assert self._process.stdin
            self._process.stdin.close()
            with suppress(OSError):  # no memory for a process: tried again after the next pause
                self._process = self._start()
            return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the process. One that was stopped (SIGSTOP) reacts only to SIGKILL, and would keep the
    journals locked."""
    process.terminate()
    try:
        process.wait(SYNCER_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ending(code: int) -> str:
    """Such as "exit code 1", "SIGKILL"."""
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
