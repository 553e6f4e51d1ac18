"""The sweep's connection to Ray: to a cluster, which stays as it is, or to a Ray of its own, of which nothing stays."""

import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from rich.console import Console

from sweeps.config.settings import Cluster
from sweeps.preflight import machine
from sweeps.running.stopping import Interrupted, Stopping
from sweeps.schema import Problem, RefusedError

LATEST = "session_latest"
"""The link beside the folders of Ray's sessions."""


class Connection:
    """Disconnects at the end of its context. After a failure the logs of its own Ray stay, and a line says where."""

    def __init__(self, cluster: Cluster, console: Console) -> None:
        self._cluster, self._console = cluster, console
        self._own_session: Path | None = None
        self.failed = False  # whether a trial has failed

    @property
    def logs(self) -> str:
        """Where Ray's logs are, as a line; "" for a cluster."""
        return f"Ray's logs: {self._own_session / 'logs'}" if self._own_session else ""

    def open(self, stopping: Stopping) -> None:
        """Start Ray on this machine alone, or join the cluster at ``cluster.address``. Raises RefusedError."""
        from sweeps.processes.ray_private import own_groups, print_no_messages, set_environment

        set_environment()
        here = self._cluster.address is None
        print_no_messages()
        try:
            with own_groups():
                context = self._started_twice() if here else self._init()
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
        refused, left = isinstance(error, RefusedError), isinstance(error, Interrupted) and not error.fault
        ended_well = error is None or refused or left
        if self._own_session and ended_well and not self.failed:
            _remove(self._own_session)
        elif self._own_session:
            self._console.print(self.logs, soft_wrap=True, markup=False, highlight=False)

    def _started_twice(self) -> Any:
        """Try once more: a busy machine may be too slow for Ray's times. Nothing of a failed start lives on."""
        before = _children()
        try:
            return self._init()
        except Exception:
            _end_since(before)
        try:
            return self._init()
        except Exception:
            _end_since(before)
            raise

    def _init(self) -> Any:
        import ray

        from sweeps.processes.ray_private import sweep_job

        here = self._cluster.address is None
        return ray.init(
            address=self._cluster.address or "local",
            job_config=sweep_job(),
            num_cpus=machine.cpus() if here else None,
            include_dashboard=self._cluster.dashboard if here else None,
            log_to_driver=False,
            logging_level="ERROR",
        )

    def _problem(self, error: Exception) -> Problem:
        address = self._cluster.address
        if address is None:
            looking = "free up memory, CPUs and space in /tmp, or read the logs in /tmp/ray/session_latest/logs"
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
    """Disconnect, and kill the processes that were started since."""
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
