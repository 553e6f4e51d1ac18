"""Run a plan on Ray: prepare its data once, schedule its trials, record their events, carry them to MLflow.

The connection to Ray is opened, watched and closed here. Of a Ray of its own nothing stays; a cluster stays as it is.
Ray is imported only once the connection opens.
"""

import errno
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from rich.console import Console

from sweeps.config.settings import Cluster
from sweeps.planning.plan import Plan
from sweeps.preflight.machine import cpus
from sweeps.preflight.node_facts import packages
from sweeps.processes.ray_private import (
    FOLDER,
    LATEST,
    TEMPORARY,
    own_groups,
    print_no_messages,
    set_environment,
    sweep_job,
    temporary_folder,
    uncounted,
)
from sweeps.processes.storage import at_place, own_temporary
from sweeps.processes.times import CLEANING_S, HEAD_ANSWER_S, HEAD_SILENT_S, LOOK_AT_RAY_S
from sweeps.running.opening import open_study
from sweeps.running.progress import Progress
from sweeps.running.queue import Queue
from sweeps.running.recorder import Recorder, unrecorded_as_error
from sweeps.running.stopping import Interrupted, Stopping, discard, leave_study
from sweeps.schema import Problem, RefusedError
from tracking.words import shell_line


def run_plan(plan: Plan, command: list[str], console: Console, tracked: bool = True) -> frozenset[str]:
    """Run the pending trials; the study on disk holds their results. Returns those that alone were asked to stop.

    Unless ``tracked``, nothing is sent to MLflow.

    Raises RefusedError, Interrupted, OSError.
    """
    with (
        unrecorded_as_error(),
        Connection(plan.composition.shared.cluster, console) as connection,
        open_study(plan, command, console, connection.open, tracked) as (plan, stopping),
    ):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping, command, connection)
        return stopping.trials


def _run_on_ray(
    plan: Plan, progress: Progress, stopping: Stopping, command: list[str], connection: "Connection"
) -> None:
    """Run the pending trials. The end of Ray ends this process with one line, which ends with the command to type."""
    from sweeps.running.tune import run_on_tune  # Tune reads its environment

    settings = plan.trials[0].settings
    recorders = {planned.trial.name: Recorder(planned, plan.origin, plan.codes) for planned in plan.pending}
    hosts = {planned.trial.name: planned.trial.weights for planned in plan.pending if planned.host}
    queue = Queue(recorders, progress, stopping, settings.sweep.max_failures, hosts)
    expected = packages() if settings.cluster.address else None  # one machine has nothing to compare
    again = f"{shell_line(command)}\n{connection.logs}".strip()

    def record(cause: str) -> None:
        """Leave nothing that the run would remove if it ended in order."""
        queue.close(f"lost: {cause}")
        leave_study(plan.folder)
        shutil.rmtree(storage, ignore_errors=True)

    with (
        own_temporary() as storage,
        queue.interruptible(),
        stopping.gentle(),
        uncounted(),
        RayWatch(lambda cause: progress.give_up(cause, again), record),
        at_place(storage),
    ):
        run_on_tune(settings, queue, storage, expected, plan.code)
    connection.failed = progress.failed()


class Connection:
    """Disconnects at the end of its context. After a failure the logs of its own Ray stay, and a line says where."""

    def __init__(self, cluster: Cluster, console: Console) -> None:
        self._cluster = cluster
        self._console = console
        self._own_session: Path | None = None
        self.failed = False  # whether a trial has failed

    @property
    def logs(self) -> str:
        """Where Ray's logs are, as a line; "" for a cluster."""
        return f"Ray's logs: {self._own_session / 'logs'}" if self._own_session else ""

    def open(self, stopping: Stopping) -> None:
        """Start Ray on this machine alone, or join the cluster at ``cluster.address``. Raises RefusedError."""
        set_environment()
        here = self._cluster.address is None
        print_no_messages()
        try:
            with own_groups():
                context = self._started() if here else self._init()
        except SystemExit:  # Ray's own SIGTERM handler, until ours is back
            stopping.note(signal.SIGTERM)
            raise stopping.interrupted(()) from None
        except Exception as error:  # Ray fails to start with many types of errors, even a bare Exception
            raise RefusedError([self._problem(error)]) from error
        finally:
            stopping.install()
        self._own_session = Path(context.address_info["session_dir"]) if here else None
        if self._cluster.dashboard:
            self._console.print(_dashboard(context.dashboard_url), soft_wrap=True, markup=False)

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if ray := sys.modules.get("ray"):
            ray.shutdown()
        refused = isinstance(error, RefusedError)
        left = isinstance(error, Interrupted) and not error.fault
        ended_well = error is None or refused or left
        if self._own_session and ended_well and not self.failed:
            _remove(self._own_session)
        elif self._own_session:
            self._console.print(self.logs, soft_wrap=True, markup=False, highlight=False)

    def _started(self, again: bool = True) -> Any:
        """Try once more: a busy machine may be too slow for Ray's times. Nothing of a failed start lives on."""
        before = _children()
        try:
            return self._init()
        except Exception:
            _end_since(before)
            if not again:
                raise
        return self._started(again=False)

    def _init(self) -> Any:
        import ray

        here = self._cluster.address is None
        return ray.init(
            address=self._cluster.address or "local",
            job_config=sweep_job(),
            num_cpus=cpus() if here else None,
            include_dashboard=self._cluster.dashboard if here else None,
            log_to_driver=False,
            logging_level="ERROR",
        )

    def _problem(self, error: Exception) -> Problem:
        address = self._cluster.address
        if address is None:
            _, folder = temporary_folder()
            logs = folder / FOLDER / LATEST / "logs"
            looking = f"free up memory, CPUs and space in {folder}, set {TEMPORARY}, or read the logs in {logs}"
            return Problem("cluster.address", f"Ray did not start on this machine: {error}", looking)
        allowed = "must be the address of a running Ray cluster, auto for the cluster that this machine joined, or null"
        return Problem("cluster.address", f"{address}: {error}", allowed)


def _dashboard(url: str) -> str:
    """``url`` is without its scheme; "" if the cluster was started without it."""
    none = "the cluster has none; `ray start --head` brings it where ray[default] is installed"
    return f"Ray's dashboard: {f'http://{url}' if url else none}"


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _end_since(before: set[psutil.Process]) -> None:
    import ray

    ray.shutdown()
    for process in _children() - before:
        with suppress(psutil.Error):
            process.kill()


def _remove(session: Path) -> None:
    shutil.rmtree(session, ignore_errors=True)
    latest = session.parent / LATEST
    with suppress(OSError):
        if latest.is_symlink() and not latest.exists():
            latest.unlink()


SYNCER = "tracking.mlflow.sync"
"""It carries the rest to MLflow, and then ends by itself."""
NODE = "raylet"
HEAD = "gcs_server"
RAY_ENDS = {HEAD: "Ray's head process (gcs_server) ended", NODE: "Ray's node process (raylet) ended"}
OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)


class RayWatch:
    """Within it, the end of Ray ends this process, once ``say`` and ``record`` have got the cause.

    A Ray that this process has started ends with one of its processes here. A cluster ends with its node here, or once
    its head has been silent for a while.
    """

    def __init__(self, say: Callable[[str], None], record: Callable[[str], None]) -> None:
        import ray

        self._address = ray.get_runtime_context().gcs_address
        self._say = say
        self._record = record
        self._closing = threading.Event()
        own = _named(psutil.Process().children())
        self._needed = own or _named(each for each in psutil.process_iter() if _is_our_node(each, self._address))
        self._joined = not own
        self._family: set[psutil.Process] = set()
        self._looked = self._answered = time.monotonic()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, name="end of Ray", daemon=True).start()

    def __exit__(self, *error: Any) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_AT_RAY_S):
            with suppress(psutil.Error, OSError):  # this process may have too many open files
                self._family |= set(psutil.Process().children(recursive=True))
            cause = self._fault()
            if cause and not self._closing.is_set():
                self._end(cause)

    def _fault(self) -> str | None:
        """Why no trial can run any more."""
        for name, process in self._needed.items():
            if not _runs(process):
                return RAY_ENDS[name]
        silent = self._joined and self._silent()
        return f"Ray's head at {self._address} no longer answers" if silent else None

    def _silent(self) -> bool:
        before = self._looked
        answers = _answers(self._address)
        self._looked = now = time.monotonic()
        if answers or now - before > HEAD_SILENT_S / 2:  # this process itself was stopped meanwhile
            self._answered = now
        return now - self._answered > HEAD_SILENT_S

    def _end(self, cause: str) -> None:
        """The main thread may be waiting for Ray and cannot end in order, so this thread ends the process."""
        try:
            with suppress(Exception):  # what cannot be printed must not keep the rest from being done
                self._say(cause)
            with suppress(OSError):  # too many open files
                _silence()
            record = threading.Thread(target=self._record, args=(cause,), daemon=True)
            record.start()
            record.join(CLEANING_S)
            for process in self._family:
                with suppress(psutil.Error, OSError):
                    if process.is_running() and SYNCER not in process.cmdline():
                        process.kill()
        finally:
            os._exit(1)


def _named(processes: Iterable[psutil.Process]) -> dict[str, psutil.Process]:
    """Those of Ray's own that nothing runs without, by name."""
    return {process.name(): process for process in processes if process.name() in RAY_ENDS}


def _is_our_node(process: psutil.Process, head: str) -> bool:
    """Whether it is this machine's node of that cluster."""
    from ray.util import get_node_ip_address

    needed = {f"--gcs-address={head}", f"--node_ip_address={get_node_ip_address()}"}
    try:
        return process.name() == NODE and needed <= set(process.cmdline())
    except (psutil.Error, OSError):
        return False


def _answers(address: str) -> bool:
    """Whether the head answers, as far as this process can ask."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=HEAD_ANSWER_S).close()
    except OSError as error:
        return error.errno in OWN_FAULTS
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except OSError:  # this process may have too many open files
        return True


def _silence() -> None:
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    discard(1, 2)
