"""Sends a study's journals to MLflow from a separate process, so that training never waits for a
server.

    [ALLELSE_TRACKING_URI=URI] python -m tracking.mlflow.sync --study FOLDER [--experiment NAME]
    [--follow]

The address is in the environment, since it may contain a password and every user can read argument
lists. Without --follow: one pass; the exit code is 1 if something was not sent, 130 after Ctrl-C.
With --follow: a pass every two seconds, with longer pauses while a server is down. When stdin ends
(the parent finished or died), one last complete pass follows. The first store imports MLflow, which
takes three seconds.
"""

import argparse
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from filelock import Timeout

from tracking.error_causes import cause_of
from tracking.files import DamagedFileError
from tracking.mlflow.ledger import note, sync_lock
from tracking.mlflow.replay.other_folder import OtherFolderError
from tracking.mlflow.replay.pass_outcome import PassOutcome
from tracking.mlflow.replay.replay import Replay
from tracking.mlflow.store import open_store
from tracking.uri import URI_VARIABLE, default_uri, without_password

POLL_S = 2.0  # pause between passes
PATIENCE_S = 60.0  # the longest pause after failures
GRACE_S = 15.0  # how long to retry the last pass after stdin has ended
LOCK_WAIT_S = 5.0


class Passes:
    """Passes over a study; the first one connects. `mlflow-sync.json` records the last outcome."""

    def __init__(self, study: Path, experiment: str | None) -> None:
        self._study = study
        self._experiment = experiment
        self.address = os.environ.get(URI_VARIABLE) or default_uri(study.parent)
        self._replay: Replay | None = None
        note(study, self.address)

    def once(self, ended: int | None = None) -> PassOutcome:
        """One pass. ``ended`` is the pid of the sweep once its trials have ended."""
        try:
            if self._replay is None:
                store = open_store(self._study, self.address, self._experiment)
                self._replay = Replay(self._study, store, self.address)
            outcome = self._replay.once(ended)
        except Exception as error:  # of a server or a disk: reported, and retried with --follow
            is_lasting = isinstance(error, DamagedFileError | OtherFolderError)
            outcome = PassOutcome(0, 0, (cause_of(error),), lasting=is_lasting)
        note(self._study, self.address, outcome.points, outcome.problems)
        return outcome

    def follow(self, parent: int, stop: threading.Event) -> int:
        """Repeat until a pass that began after `stop` succeeds, or has only lasting problems.
        Returns the exit code.

        ``parent`` is the pid of the sweep.
        """
        pause = POLL_S
        printed = ""
        deadline = float("inf")
        while True:
            is_last = stop.is_set()
            outcome = self.once(parent if is_last else None)
            ends = is_last and (outcome.lasting or not outcome.problems)
            printed = _print_outcome(outcome, printed, "" if ends else ", retrying")
            if is_last:
                deadline = min(deadline, time.monotonic() + GRACE_S)
            if ends or time.monotonic() >= deadline:
                return 1 if outcome.problems else 0
            pause = min(2 * pause, PATIENCE_S) if outcome.problems else POLL_S
            if is_last:
                time.sleep(min(pause, GRACE_S / 4))
            else:
                stop.wait(pause)


def _print_outcome(outcome: PassOutcome, printed: str = "", outlook: str = "") -> str:
    """Print the problems unless they equal ``printed``, the last ones printed.

    Returns the current ones.
    """
    problems = "; ".join(outcome.problems)
    for line in (*outcome.remarks, *outcome.notices):
        _print(line)
    if problems not in ("", printed):
        _print(f"failed{outlook}: {problems}")
    if printed and not problems:
        _print("recovered")
    return problems


def main(arguments: list[str] | None = None) -> int:
    """Parse, lock, sync. Exit codes: 0 everything was sent, 1 something was not."""
    options = _parser().parse_args(arguments)
    study: Path = options.study.resolve()
    if not study.is_dir():
        _print(f"no study at {study}")
        return 1
    try:
        with sync_lock(study).acquire(timeout=-1 if options.follow else LOCK_WAIT_S):
            passes = Passes(study, options.experiment)
            if not options.follow:
                return _once(passes)
            # the parent gets Ctrl-C, too, and ends this process
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            return passes.follow(os.getppid(), _end_of_stdin())
    except Timeout:
        _print(f"another process is already syncing {study.name} to MLflow")
    except OSError as error:  # no lock could be made: a full disk
        _print(f"failed: {cause_of(error)}")
    return 1


def _once(passes: Passes) -> int:
    outcome = passes.once()
    _print_outcome(outcome)
    if outcome.runs or not outcome.problems:
        address = without_password(passes.address, mark="")
        _print(f"{outcome.runs} runs, {outcome.points} new points, {address}")
    return 1 if outcome.problems or outcome.notices else 0  # notices: refused artifacts


def _end_of_stdin() -> threading.Event:
    """An event set when stdin ends: the kernel closes a dead parent's pipe, however it died."""
    ended = threading.Event()

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def _print(line: str) -> None:
    with suppress(OSError):  # a full disk: sending matters more
        print(f"sync: {line}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tracking.mlflow.sync", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--study", type=Path, required=True, help="the study's folder")
    parser.add_argument(
        "--experiment", help="the MLflow experiment, created if missing; default: the study's own"
    )
    parser.add_argument("--follow", action="store_true", help="keep syncing until stdin ends")
    return parser


if __name__ == "__main__":
    # SQLAlchemy may turn KeyboardInterrupt into an ordinary error, which would be retried; the next
    # pass sends the rest
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    sys.exit(main())
