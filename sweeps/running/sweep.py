"""Run a plan on Ray: prepare its data once, schedule its trials, record their events, carry them to
MLflow.

The connection to Ray is opened, watched and closed here. A Ray that the sweep started leaves
nothing behind; a cluster stays as it is. Ray is imported only once the connection opens.
"""

import errno
import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from rich.console import Console

from sweeps.config.settings import Cluster
from sweeps.console import print_line
from sweeps.planning.plan import Plan
from sweeps.preflight.machine import cpus
from sweeps.preflight.node_facts import packages
from sweeps.problems import Problem, RefusedError
from sweeps.processes.interruption import Interrupted
from sweeps.processes.ray_private import (
    FOLDER,
    LATEST,
    TEMPORARY,
    our_sigterm_handler,
    own_groups,
    print_no_messages,
    set_environment,
    sweep_job,
    temporary_folder,
    uncounted,
)
from sweeps.processes.storage import at_place, own_temporary
from sweeps.processes.streams import discard
from sweeps.processes.times import CLEANING_S, HEAD_ANSWER_S, HEAD_SILENT_S, LOOK_AT_RAY_S
from sweeps.running.opening import open_study
from sweeps.running.progress import Progress
from sweeps.running.queue import Queue
from sweeps.running.recording.recorder import Recorder, unrecorded_as_error
from sweeps.running.stopping import Stopping, leave_study
from tracking.shell import shell_line


def run_plan(
    plan: Plan, command: list[str], console: Console, tracked: bool = True
) -> frozenset[str]:
    """Run the pending trials; the study on disk holds their results. Returns the trials that were
    stopped one by one.

    Unless ``tracked``, nothing is sent to MLflow.

    Raises RefusedError, Interrupted, OSError.
    """
    with (
        unrecorded_as_error(),
        Connection(plan.shared.cluster, console) as connection,
        open_study(plan, command, console, connection.open, tracked) as (plan, stopping),
    ):
        if plan.pending:
            with Progress(plan, console) as progress:
                try:
                    _run_on_ray(plan, progress, stopping, command, connection)
                finally:  # an interruption must not remove the logs of a failure
                    connection.failed = progress.trials.failed()
        return stopping.trials


def _run_on_ray(
    plan: Plan, progress: Progress, stopping: Stopping, command: list[str], connection: "Connection"
) -> None:
    """Run the pending trials. The end of Ray ends this process with one line, which ends with the
    command to type."""
    from sweeps.running.tune import run_on_tune  # Tune reads its environment

    settings = plan.trials[0].settings
    recorders = {
        planned.name: Recorder(planned, plan.origin, plan.codes) for planned in plan.pending
    }
    hosts = {planned.name: planned.trial.weights for planned in plan.pending if planned.host}
    queue = Queue(recorders, progress, stopping, settings.sweep.max_failures, hosts)
    # one machine has nothing to compare
    expected = packages() if settings.cluster.address else None
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


class Connection:
    """Disconnects at the end of its context. After a failure the logs of its own Ray stay, and a
    line says where."""

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
        """Start Ray only on this machine, or join the cluster at ``cluster.address``. Raises
        RefusedError."""
        set_environment()
        is_own_ray = self._cluster.address is None
        print_no_messages()
        try:
            with own_groups(), our_sigterm_handler():
                context = self._start_ray() if is_own_ray else self._init_ray()
        except SystemExit:  # of Ray's own SIGTERM handler, if it has installed that
            stopping.note(signal.SIGTERM)
            raise stopping.interrupted(()) from None
        except Exception as error:
            # Ray fails to start with many types of errors, even a bare Exception
            raise RefusedError([self._problem(error)]) from error
        finally:
            stopping.install()
        if stopping.requested():  # Python ignored the exception, as in a callback after a fork
            raise stopping.interrupted(())
        self._own_session = Path(context.address_info["session_dir"]) if is_own_ray else None
        if self._cluster.dashboard:
            print_line(self._console, _dashboard(context.dashboard_url))

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        if ray := sys.modules.get("ray"):
            ray.shutdown()
        refused = isinstance(error, RefusedError)
        is_interrupted = isinstance(error, Interrupted) and not error.fault
        ended_well = error is None or refused or is_interrupted
        if self._own_session and ended_well and not self.failed:
            _remove(self._own_session)
        elif self._own_session:
            print_line(self._console, self.logs)

    def _start_ray(self, again: bool = True) -> Any:
        """Start Ray, with a second try: a busy machine may be too slow. Ends all processes of a
        failed start."""
        earlier_children = _children()
        try:
            return self._init_ray()
        except Exception:
            _kill_new_children(earlier_children)
            if not again:
                raise
        return self._start_ray(again=False)

    def _init_ray(self) -> Any:
        import ray

        is_own_ray = self._cluster.address is None
        return ray.init(
            address=self._cluster.address or "local",
            job_config=sweep_job(),
            num_cpus=cpus() if is_own_ray else None,
            include_dashboard=self._cluster.dashboard if is_own_ray else None,
            log_to_driver=False,
            logging_level="ERROR",
        )

    def _problem(self, error: Exception) -> Problem:
        address = self._cluster.address
        if address is None:
            _, folder = temporary_folder()
            logs = folder / FOLDER / LATEST / "logs"
            looking = (
                f"free up memory, CPUs and space in {folder}, set {TEMPORARY}, "
                f"or read the logs in {logs}"
            )
            return Problem(
                "cluster.address", f"Ray did not start on this machine: {error}", looking
            )
        allowed = (
            "must be the address of a running Ray cluster, "
            "auto for the cluster that this machine joined, or null"
        )
        return Problem("cluster.address", f"{address}: {error}", allowed)


def _dashboard(url: str) -> str:
    """A line with the dashboard's address. ``url`` has no scheme; it is "" if the cluster has no
    dashboard."""
    if not url:
        return (
            "Ray's dashboard: the cluster has none; `ray start --head` starts one if "
            "ray[default] is installed"
        )
    return f"Ray's dashboard: http://{url}"


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def _kill_new_children(earlier_children: set[psutil.Process]) -> None:
    import ray

    ray.shutdown()
    for process in _children() - earlier_children:
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
RAY_ENDS = {
    HEAD: "Ray's head process (gcs_server) ended",
    NODE: "Ray's node process (raylet) ended",
}
OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)


class RayWatch:
    """Within it, the end of Ray ends this process, once ``say`` and ``record`` have got the cause.

    A Ray that this process has started ends with one of its processes here. A cluster ends with its
    node here, or once its head has been silent for a while.
    """

    def __init__(self, say: Callable[[str], None], record: Callable[[str], None]) -> None:
        import ray

        self._address = ray.get_runtime_context().gcs_address
        self._say = say
        self._record = record
        self._closing = threading.Event()
        own_processes = _needed_processes(psutil.Process().children())
        self._needed = own_processes or _needed_processes(self._our_nodes())
        self._joined = not own_processes
        self._family: set[psutil.Process] = set()
        self._last_look = self._answered = time.monotonic()

    def _our_nodes(self) -> Iterator[psutil.Process]:
        """The processes of this machine's node of the cluster."""
        for process in psutil.process_iter():
            if _is_our_node(process, self._address):
                yield process

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
        """Why no trial can run anymore."""
        for name, process in self._needed.items():
            if not _runs(process):
                return RAY_ENDS[name]
        silent = self._joined and self._head_is_silent()
        return f"Ray's head at {self._address} no longer answers" if silent else None

    def _head_is_silent(self) -> bool:
        last_look = self._last_look
        answers = _answers(self._address)
        look_time = time.monotonic()
        self._last_look = look_time
        if answers or look_time - last_look > HEAD_SILENT_S / 2:
            # this process itself was stopped meanwhile
            self._answered = look_time
        return look_time - self._answered > HEAD_SILENT_S

    def _end(self, cause: str) -> None:
        """The main thread may be waiting for Ray and cannot end in order, so this thread ends the
        process."""
        try:
            with suppress(
                Exception
            ):  # what cannot be printed must not keep the rest from being done
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


def _needed_processes(processes: Iterable[psutil.Process]) -> dict[str, psutil.Process]:
    """Ray's processes without which nothing runs, by name."""
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
    """Whether the head accepts a connection; True if this process cannot try."""
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
