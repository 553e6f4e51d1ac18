"""Run a plan: prepare its data once, schedule its trials on Ray, record their events, carry them to MLflow."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.preflight.node_facts import packages
from sweeps.processes.storage import at_place, own_temporary
from sweeps.running.connection import Connection
from sweeps.running.opening import open_study
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder, unrecorded_as_error
from sweeps.running.stopping import Stopping, leave_study
from tracking.words import shell_line

if TYPE_CHECKING:
    from sweeps.running.queue import Queue  # it imports Tune, which reads its environment


def run_plan(plan: Plan, command: list[str], console: Console) -> frozenset[str]:
    """Run the pending trials; the study on disk holds their results. Returns those that alone were asked to stop.

    Raises RefusedError, Interrupted, OSError.
    """
    with (
        unrecorded_as_error(),
        Connection(plan.composition.shared.cluster, console) as connection,
        open_study(plan, command, console, connection.open) as (plan, stopping),
    ):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping, command, connection)
        return stopping.trials


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping, command: list[str], connection: Connection) -> None:
    """Run the pending trials."""
    from sweeps.processes.ray_private import uncounted
    from sweeps.running.queue import Queue
    from sweeps.running.tune import run_on_tune

    settings = plan.trials[0].settings
    recorders = {planned.trial.name: Recorder(planned, plan.origin) for planned in plan.pending}
    queue = Queue(recorders, progress, stopping, settings.sweep.max_failures)
    expected = packages() if settings.cluster.address else None  # one machine has nothing to compare
    with (
        own_temporary() as storage,
        _interruptible(queue),
        stopping.gentle(),
        uncounted(),
        _watched(queue, partial(_leave, plan.folder, storage), f"{shell_line(command)}\n{connection.logs}".strip()),
        at_place(storage),
    ):
        run_on_tune(settings, queue, storage, expected, plan.code)
    connection.failed = progress.failed()


@contextmanager
def _watched(queue: "Queue", leave: Callable[[], None], command: str) -> Iterator[None]:
    """Within it, the end of Ray ends this process with one line, which ends with the command to type."""
    from sweeps.running.connection import RayWatch

    def record(cause: str) -> None:
        queue.close(f"lost: {cause}")
        leave()

    watch = RayWatch(lambda cause: queue.progress.give_up(cause, command), record)
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
def _interruptible(queue: "Queue") -> Iterator[None]:
    """On an interruption, end the open attempts and raise Interrupted with one line per running trial."""
    try:
        yield
    except KeyboardInterrupt as error:
        # first: another signal may end what follows
        interrupted = queue.stopping.with_lines(error, queue.progress.left())
        queue.close()
        raise interrupted from None
