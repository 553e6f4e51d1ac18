"""One trial in this process, without Ray."""

import threading
import traceback
from bdb import BdbQuit
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from sweeps.config.tasks import is_fault_of_code
from sweeps.planning.plan import Plan
from sweeps.processes.events import Event, Failed, Order, Report
from sweeps.running.failures import ended_if_it_hangs
from sweeps.running.opening import open_study
from sweeps.running.progress import Progress
from sweeps.running.queue import NOTHING, Queue
from sweeps.running.recording.recorder import (
    Recorder,
    RemovedError,
    UnrecordedError,
    unrecorded_as_error,
)
from sweeps.running.stopping import leave_study
from sweeps.task import RefusedError
from sweeps.worker.attempt import Driver
from sweeps.worker.calls import cause, printable
from sweeps.worker.debugger import open_debugger_after
from sweeps.worker.user_code.imports import in_users_folders, running_code
from tracking.files import DamagedFileError

HERE = "this process"


def run_single(plan: Plan, command: list[str], console: Console) -> None:
    """Train and evaluate the one trial of the plan. Raises RefusedError, Interrupted, OSError."""
    with unrecorded_as_error(), open_study(plan, command, console) as (plan, stopping):
        if plan.pending:
            recorder = Recorder(plan.pending[0], plan.origin, plan.codes)
            with (
                Progress(plan, console) as progress,
                running_code(plan.code, plan.folder) as folder,
            ):
                queue = Queue({recorder.planned.name: recorder}, progress, stopping, max_failures=0)
                _Lone(queue, recorder, folder).run()


class _Lone:
    """The only process of a run. It takes orders from the queue, and passes the events of its work
    to it."""

    def __init__(self, queue: Queue, recorder: Recorder, folder: Path | None) -> None:
        self._queue = queue
        self._recorder = recorder
        self._folder = folder  # from which the task is imported; None for our own
        self._order: Order = NOTHING
        self._driver: Driver | None = None
        self._telling = threading.Lock()  # the thread that writes checkpoints has notices

    def run(self) -> None:
        """Work, and record how it ends. Raises UnrecordedError, Interrupted, RefusedError."""
        stall_s = 60 * self._recorder.planned.settings.sweep.stall_minutes
        watched = ended_if_it_hangs(stall_s, self._recorder.folder.log_path, self._hangs)
        open_debugger_after(self._queue.progress.close)
        with self._queue.interruptible(), suppress(RemovedError):
            self._queue.start(HERE, self._obey)
            with watched, self._queue.stopping.gentle():
                self._work()
            if self._recorder.stopped:
                raise self._queue.stopping.interrupted(self._queue.progress.trials.resume_lines())

    def _work(self) -> None:
        try:
            if self._order.assignment is not None:
                assignment = self._order.assignment
                folder = str(self._folder or assignment.folder)
                self._driver = Driver(replace(assignment, folder=folder), self._tell)
                self._driver.newest()
                self._driver.work(0, 1, "", self._stops)
        except RefusedError:
            self._queue.close("refused")
            raise
        except (RemovedError, UnrecordedError):
            raise
        except BdbQuit:
            raise self._queue.stopping.interrupted(
                self._queue.progress.trials.resume_lines()
            ) from None
        except BaseException as error:  # whatever the user's code raises
            if not is_fault_of_code(error):
                raise
            self._tell(Failed(cause(error), printable(in_users_folders(traceback.format_exc()))))

    def _obey(self, order: Order) -> None:
        self._order = order

    def _stops(self) -> bool:
        with self._telling:
            self._queue.tick()
        return self._order.stop

    def _tell(self, event: Event) -> None:
        """Raises RemovedError, UnrecordedError."""
        with self._telling:
            self._queue.take(HERE, self._recorder.attempt, [event])
            self._queue.tick()
        if self._order.assignment is None:
            raise RemovedError
        if isinstance(event, Report) and self._driver is not None:
            self._driver.recorded(event.step)

    def _hangs(self, failed: Failed) -> None:
        """Record and show the hang, from the thread that noticed it. The process then ends."""
        name = self._recorder.planned.name
        self._queue.progress.close()
        self._queue.progress.take(name, failed)
        self._queue.progress.notice(name, "the same command resumes it")
        with suppress(OSError, DamagedFileError):  # the next attempt records this end
            self._recorder.take(self._recorder.attempt, failed)
        leave_study(self._recorder.folder.path.parent)
