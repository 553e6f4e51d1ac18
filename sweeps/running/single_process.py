"""One trial in this process, without Ray."""

import threading
import traceback
from contextlib import suppress
from functools import partial

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.running.failures import ended_if_it_hangs
from sweeps.running.opening import open_study
from sweeps.running.progress import Progress
from sweeps.running.recorder import REMOVED, Recorder, RemovedError, unrecorded_as_error
from sweeps.running.stopping import Stopping, leave_study
from sweeps.task import RefusedError
from sweeps.worker.attempt import Driver
from sweeps.worker.calls import cause, printable
from sweeps.worker.events import Event, Failed, Report
from sweeps.worker.recorded_code import use_code
from tracking.files import DamagedFileError


def run_single(plan: Plan, command: list[str], console: Console) -> None:
    """Train and evaluate the one trial of the plan. Raises RefusedError, Interrupted, OSError."""
    with unrecorded_as_error(), open_study(plan, command, console) as (plan, stopping):
        if plan.pending:
            use_code(plan.code)
            with Progress(plan, console) as progress:
                _run_here(plan, progress, stopping)


def _run_here(plan: Plan, progress: Progress, stopping: Stopping) -> None:
    planned = plan.pending[0]
    recorder, name = Recorder(planned, plan.origin), planned.trial.name
    recorder.begin()
    progress.start(name)
    try:
        _attempt(recorder, progress, stopping)
    except RemovedError:
        progress.fail(name, REMOVED)


def _attempt(recorder: Recorder, progress: Progress, stopping: Stopping) -> None:
    """Work, and record how it ends. Raises RemovedError, UnrecordedError, Interrupted, RefusedError."""
    try:
        _work(recorder, progress, stopping)
    except KeyboardInterrupt as error:
        interrupted = stopping.with_lines(error, progress.left())  # first: another signal may end what follows
        _end(recorder, "interrupted")
        raise interrupted from None
    except RefusedError:
        _end(recorder, "refused")
        raise
    except (Exception, SystemExit) as error:
        _take(recorder, progress, Failed(cause(error), printable(traceback.format_exc())))


def _take(recorder: Recorder, progress: Progress, event: Event) -> None:
    """Raises RemovedError, UnrecordedError."""
    name = recorder.planned.trial.name
    recorder.patiently(partial(recorder.take, recorder.attempt, event), partial(progress.notice, name))
    progress.take(name, event)


def _end(recorder: Recorder, reason: str) -> None:
    """An end that cannot be written is written by the next attempt."""
    with suppress(OSError, DamagedFileError):
        recorder.end(reason)


def _work(recorder: Recorder, progress: Progress, stopping: Stopping) -> None:
    """Raises Interrupted once the trial has stopped as requested."""
    assignment, name, one_at_a_time = recorder.assignment(), recorder.planned.trial.name, threading.Lock()

    def stop() -> bool:
        if stopping.requested_for(name) and not progress.stopping:
            progress.stop()
        return stopping.requested_for(name)

    def tell(failed: Failed) -> None:
        progress.close()
        progress.take(name, failed)
        progress.notice(name, "the same command resumes it")
        with suppress(OSError, DamagedFileError):  # the next attempt records this end
            recorder.take(recorder.attempt, failed)
        leave_study(recorder.folder.path.parent)

    def take(event: Event) -> None:
        with one_at_a_time:  # the thread that writes checkpoints has notices
            _take(recorder, progress, event)
            stopping.seconds_left = progress.seconds_left()
        if isinstance(event, Report):
            driver.recorded(event.step)

    stall_s = 60 * recorder.planned.settings.sweep.stall_minutes
    with ended_if_it_hangs(stall_s, recorder.folder.log_path, tell), stopping.gentle():
        driver = Driver(assignment, take)
        driver.newest()
        driver.work(0, 1, "", stop)
    if recorder.stopped:
        raise stopping.interrupted(progress.left())
