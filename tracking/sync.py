"""Carries a study's journals to MLflow, from a process of its own: training never waits for a server.

    python -m tracking.sync --study FOLDER --experiment NAME [--uri URI] [--follow]

Once: one pass; exit code 1 when something could not be carried, 130 after Ctrl-C. With --follow: a pass every
two seconds, patient with a server that is away, until stdin reaches its end (the parent has finished or died);
then one last whole pass. MLflow is imported when a store is opened, not before: that takes three seconds.
"""

import argparse
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from tracking.replay import Pass, Replay, first_line
from tracking.tracker import Point, RunSpec, Status
from tracking.uri import artifact_folder, default_uri, without_password

BATCH = 1000  # metrics in a request, MLflow's limit; params and tags: 100
POLL_S, PATIENCE_S = 2.0, 60.0  # pause between passes; the longest pause after failures
GRACE_S = 15.0  # how long the last pass is tried again once nobody waits for it
LOCK_WAIT_S = 5.0
Item = TypeVar("Item")
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",  # we try again ourselves, and say so
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",  # seconds
}


class MlflowTracker:
    """The tracker's verbs on an MLflow store. Raises what MLflow raises; keeps no global state."""

    def __init__(self, uri: str, experiment: str, artifacts: str | None = None) -> None:
        """`artifacts`: where a new experiment keeps them; None leaves it to the server."""
        silence()
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient(tracking_uri=uri, registry_uri=uri)
        self.experiment_id = self._experiment(experiment, artifacts)

    def open_run(self, spec: RunSpec, known: str | None) -> str:
        if known is not None and self._exists(known):
            return known
        wanted = " and ".join(f"tags.`{name}` = '{spec.tags[name]}'" for name in ("trial.key", "sweep.id"))
        found = self.client.search_runs([self.experiment_id], wanted, order_by=["attributes.start_time ASC"])
        if not found:
            found = [self.client.create_run(self.experiment_id, spec.start_ms, spec.tags, spec.name)]
        return str(found[0].info.run_id)

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        from mlflow.entities import Param

        has = self.client.get_run(run_id).data.params
        new = [Param(name, value) for name, value in params.items() if name not in has]
        for some in _batches(new, 100):
            self.client.log_batch(run_id, params=some)

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        from mlflow.entities import RunTag

        for some in _batches(list(tags.items()), 100):
            self.client.log_batch(run_id, tags=[RunTag(name, value) for name, value in some])

    def log_points(self, run_id: str, points: list[Point]) -> None:
        from mlflow.entities import Metric

        for some in _batches(points, BATCH):
            metrics = [Metric(point.name, point.value, point.ts_ms, point.step) for point in some]
            self.client.log_batch(run_id, metrics=metrics)

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        if status == "RUNNING":
            self.client.update_run(run_id, status)
        else:
            self.client.set_terminated(run_id, status, end_ms)

    def _experiment(self, name: str, artifacts: str | None) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None and found.lifecycle_stage != "active":
            raise ValueError(f"MLflow experiment {name!r} is deleted; restore it or choose another name")
        return str(found.experiment_id if found else self.client.create_experiment(name, artifacts))

    def _exists(self, run_id: str) -> bool:
        from mlflow.exceptions import MlflowException

        try:
            return bool(self.client.get_run(run_id).info.lifecycle_stage == "active")
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise


def open_tracker(uri: str | None, runs: Path, experiment: str) -> tuple[MlflowTracker, str]:
    """The tracker and its address. `uri` None means the default store below `runs`.

    A lock keeps the sweeps of several studies from making the same new store or experiment at once.
    """
    where = uri or default_uri(runs)
    artifacts = artifact_folder(runs).as_uri() if where == default_uri(runs) else None
    with FileLock(runs / ".mlflow.lock"):
        return MlflowTracker(where, experiment, artifacts), where


def follow(once: Callable[[], Pass], stop: threading.Event) -> int:
    """Pass after pass until one that began after `stop` was set succeeds; the exit code."""
    pause, said, deadline = POLL_S, "", float("inf")
    while True:
        last = stop.is_set()
        done = _attempt(once)
        if last and not done.problems:
            return 0
        if last:
            deadline = min(deadline, time.monotonic() + GRACE_S)
            if time.monotonic() >= deadline:
                return 1
        complaint = "; ".join(done.problems)
        if complaint not in ("", said):
            _say(f"sync: not carried, trying again: {complaint}")
        said = complaint
        pause = min(2 * pause, PATIENCE_S) if complaint else POLL_S
        if last:
            time.sleep(min(pause, GRACE_S / 4))
        else:
            stop.wait(pause)


def main(arguments: list[str] | None = None) -> int:
    """Parse, lock, carry. Exit codes: 0 all carried, 1 not all."""
    options = _parser().parse_args(arguments)
    study: Path = options.study.resolve()
    if not study.is_dir():
        _say(f"sync: no study at {study}")
        return 1
    lock = FileLock(study / ".sync.lock")
    try:
        with lock.acquire(timeout=-1 if options.follow else LOCK_WAIT_S):
            once = _connecting(study, options.uri, options.experiment)
            if options.follow:
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends us
                return follow(once, _end_of_stdin())
            return _report(_attempt(once), options.uri or default_uri(study.parent))
    except Timeout:
        _say(f"sync: another process is carrying {study.name} to MLflow already")
        return 1


def _batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _connecting(study: Path, uri: str | None, experiment: str) -> Callable[[], Pass]:
    """A pass that connects first, and again as long as that has failed."""
    connected: list[Replay] = []

    def once() -> Pass:
        if not connected:
            tracker, where = open_tracker(uri, study.parent, experiment)
            connected.append(Replay(study, tracker, where))
        return connected[0].once()

    return once


def _attempt(once: Callable[[], Pass]) -> Pass:
    try:
        return once()
    except Exception as error:  # whatever a server or a disk may raise: named, and tried again while following
        return Pass(0, 0, (first_line(error),))


def _report(done: Pass, uri: str) -> int:
    for problem in done.problems:
        _say(f"sync: not carried: {problem}")
    if done.runs or not done.problems:
        _say(f"sync: {done.runs} runs, {done.points} new points, {without_password(uri)}")
    return 1 if done.problems else 0


def _end_of_stdin() -> threading.Event:
    """Set once stdin is at its end: the kernel closes a dead parent's pipe, however it died."""
    ended = threading.Event()

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def silence() -> None:
    """Keep MLflow's and its database layer's lines off the terminal, and its telemetry off the network."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("alembic", "mlflow", "sqlalchemy", "urllib3"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _end_at_ctrl_c() -> None:
    """Exit code 130, at once: SQLAlchemy may turn KeyboardInterrupt into an error like others, which we would survive.

    Nothing is lost by it: the next pass carries what is missing, as after a kill.
    """
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tracking.sync", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--study", type=Path, required=True, help="the study's folder")
    parser.add_argument("--uri", help="MLflow's tracking URI; by default sqlite beside the study")
    parser.add_argument("--experiment", required=True, help="name of the MLflow experiment; made when missing")
    parser.add_argument("--follow", action="store_true", help="go on until stdin ends")
    return parser


if __name__ == "__main__":
    _end_at_ctrl_c()
    sys.exit(main())
