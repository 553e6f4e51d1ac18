"""Run a plan: prepare its data once, schedule its trials on Ray, record their events, carry them to MLflow."""

import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.planning.settings import Cluster
from sweeps.preflight import machine
from sweeps.preflight.node_facts import packages
from sweeps.processes.storage import at_place
from sweeps.running.open_study import leave_study, open_study
from sweeps.running.own_temporary import own_temporary
from sweeps.running.patient_record import unrecorded_as_error
from sweeps.running.progress import Progress
from sweeps.running.queue import Queue
from sweeps.running.recorder import Recorder
from sweeps.running.repair import readable
from sweeps.running.stopping import Stopping
from sweeps.schema import Problem, RefusedError
from tracking.shell import shell_line


def run_plan(plan: Plan, command: list[str], console: Console) -> frozenset[str]:
    """Run the pending trials; the study on disk holds their results. Returns those that alone were asked to stop.

    Raises RefusedError, Interrupted, OSError.
    """
    plan = readable(plan, console)
    connect = partial(_connect, plan.composition.shared.cluster, console)
    with (
        unrecorded_as_error(),
        _disconnected_at_the_end(),
        open_study(plan, command, console, connect) as (plan, stopping),
    ):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping, command)
        return stopping.trials


@contextmanager
def _disconnected_at_the_end() -> Iterator[None]:
    try:
        yield
    finally:
        if ray := sys.modules.get("ray"):
            ray.shutdown()


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping, command: list[str]) -> None:
    """Run the pending trials."""
    from sweeps.processes.ray_private import uncounted
    from sweeps.running.on_tune import run_on_tune
    from sweeps.running.orders import start_orders

    settings = plan.trials[0].settings
    recorders = {planned.trial.name: Recorder(planned) for planned in plan.pending}
    orders = start_orders()
    queue = Queue(recorders, progress, stopping, settings.sweep.max_failures, orders.put.remote)
    expected = packages() if settings.cluster.address else None  # one machine has nothing to compare
    with (
        own_temporary() as storage,
        _interruptible(queue),
        stopping.gentle(),
        uncounted(),
        _watched(queue, partial(_leave, plan.folder, storage), command),
        at_place(storage),
    ):
        run_on_tune(settings, queue, storage, expected)


@contextmanager
def _watched(queue: Queue, leave: Callable[[], None], command: list[str]) -> Iterator[None]:
    """Within it, the end of Ray ends this process with one line and the command to type."""
    from sweeps.running.ray_watch import RayWatch

    def record(cause: str) -> None:
        queue.close(f"lost: {cause}")
        leave()

    watch = RayWatch(lambda cause: queue.progress.give_up(cause, shell_line(command)), record)
    watch.start()
    try:
        yield
    finally:
        watch.close()


def _leave(study: Path, storage: Path) -> None:
    """Remove what the run would remove if it ended in order."""
    leave_study(study)
    shutil.rmtree(storage, ignore_errors=True)


@contextmanager
def _interruptible(queue: Queue) -> Iterator[None]:
    """On an interruption, end the open attempts and raise Interrupted with one line per running trial."""
    try:
        yield
    except KeyboardInterrupt as error:
        # first: another signal may end what follows
        interrupted = queue.stopping.with_lines(error, queue.progress.left())
        queue.close()
        raise interrupted from None


def _connect(cluster: Cluster, console: Console, stopping: Stopping) -> None:
    """Start Ray on this machine alone, or join the cluster at ``cluster.address``. Raises RefusedError."""
    from sweeps.processes.ray_private import own_groups, print_no_messages, set_environment, sweep_job

    set_environment()
    import ray

    here = cluster.address is None
    print_no_messages()
    try:
        with own_groups():
            context = ray.init(
                address=cluster.address or "local",
                job_config=sweep_job(),
                num_cpus=machine.cpus() if here else None,
                include_dashboard=cluster.dashboard if here else None,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except SystemExit:  # Ray's own SIGTERM handler, until ours is back
        stopping.note(signal.SIGTERM)
        raise stopping.interrupted(()) from None
    except Exception as error:  # Ray fails to start with many types of errors, even a bare Exception
        found = f"Ray did not start on this machine: {error}" if here else f"{cluster.address}: {error}"
        allowed = "must be the address of a running Ray cluster, auto for the cluster that this machine joined, or null"
        looking = "free up memory, CPUs and space in /tmp, or read the logs in /tmp/ray/session_latest/logs"
        raise RefusedError([Problem("cluster.address", found, looking if here else allowed)]) from error
    finally:
        stopping.install()
    if cluster.dashboard:
        console.print(_dashboard(context.dashboard_url), soft_wrap=True)


def _dashboard(url: str) -> str:
    """``url`` is without its scheme; "" if the cluster was started without it."""
    none = "the cluster has none; `ray start --head` brings it where ray[default] is installed"
    return f"Ray's dashboard: {f'http://{url}' if url else none}"
