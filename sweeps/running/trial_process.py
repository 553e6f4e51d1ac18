"""A trial's process, which Ray Tune steps, and the callback that informs the queue. It runs one
trial after another.

Imports neither torch nor what plans a study: the process needs neither.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import ray
from ray import tune
from ray.exceptions import RayError

from sweeps.config.settings import Cluster
from sweeps.preflight.node_facts import Packages
from sweeps.processes.events import Event, Failed, Finished, Lost, Noticed, Order, Stopped
from sweeps.processes.times import DEATH_S, FIRST_ORDER_S
from sweeps.running.failures import died
from sweeps.running.group import WorkerGroup
from tracking.code import Code

if TYPE_CHECKING:
    from sweeps.running.queue import Queue

NO_START = "no trial process starts; see Ray's logs"
AFTER_RESULT = "a worker did not exit cleanly after the result: {cause}"
FAILED_STARTS = 5
"""After this many failures in a row, the sweep gives up."""


class LostWorkersError(RuntimeError):
    """The attempt lost a worker: Tune ends this process, with its place."""


class TrialProcess(tune.Trainable):  # type: ignore[misc]
    """Runs trials one after another, with the same workers as long as these are healthy."""

    def setup(
        self,
        config: dict[str, Any],
        cluster: Cluster,
        stall_s: float,
        packages: Packages | None,
        code: Code | None,
    ) -> None:
        self._group = WorkerGroup(cluster, stall_s, packages, code)
        self.reset_config({})

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._turn = Turn(self._group)
        self._lost = ""
        # sent once, so that orders can come
        self._process: Any = ray.get_runtime_context().current_actor
        return True

    def obey(self, order: Order) -> None:
        """Take the order, which holds from the next step on. Ray calls this between two steps."""
        self._turn.order = order

    def step(self) -> dict[str, Any]:
        """One poll: its events, and whether the trial is over. Raises LostWorkersError after it
        returned a loss."""
        if self._lost:
            raise LostWorkersError(self._lost)
        result = self._turn.step()
        self._lost = result.lost.cause if result.lost else ""
        answer: dict[str, Any] = {
            "attempt": result.attempt,
            "events": result.events,
            "done": result.over and result.lost is None,
        }
        if self._process:
            answer["process"] = self._process
        self._process = None
        return answer

    def cleanup(self) -> None:
        self._group.close()


@dataclass(frozen=True)
class StepResult:
    """The events of an attempt since the last step. ``over``: it has ended. ``lost``: because it
    lost a worker."""

    attempt: int
    events: Sequence[Event] = ()
    over: bool = False
    lost: Lost | None = None


class Turn:
    """Runs the attempt of its ``order``, the last one that came."""

    def __init__(self, group: WorkerGroup) -> None:
        self._group = group
        self.order: Order | None = None
        self._attempt = 0  # the number of the attempt that has begun, if any
        self._finished = False

    def step(self) -> StepResult:
        """One poll. Before the first order it answers after a short pause."""
        order = self.order
        if order is None:
            time.sleep(FIRST_ORDER_S)
            return StepResult(0)
        has_begun = self._attempt > 0
        if order.assignment is None and has_begun:
            return self._closed([])
        if order.assignment is None or (order.stop and not has_begun):
            return StepResult(0, over=True)
        if not has_begun:
            self._attempt = order.assignment.attempt
            self._group.begin(order.assignment)
        if order.stop and not self._group.begun:
            return self._closed([])
        return self._result_of(self._group.poll(order.stop, order.poll_s))

    def _result_of(self, events: Sequence[Event]) -> StepResult:
        self._finished = self._finished or any(isinstance(event, Finished) for event in events)
        end = next((event for event in events if isinstance(event, Failed | Lost)), None)
        if end is not None and self._finished:
            # the result stands, but these workers are not used again
            others = [event for event in events if not isinstance(event, Failed | Lost)]
            return self._closed([*others, Noticed(AFTER_RESULT.format(cause=end.cause))])
        if isinstance(end, Lost):
            return self._closed(events, end)
        if end is not None or any(isinstance(event, Stopped) for event in events):
            return self._closed(events)
        if not self._group.over:
            return StepResult(self._attempt, events)
        if self._finished:  # what workers print may follow the result
            return StepResult(self._attempt, events, over=True)
        lost = Lost("worker 0 ended without a result", "")
        return self._closed([*events, lost], lost)

    def _closed(self, events: Sequence[Event], lost: Lost | None = None) -> StepResult:
        self._group.close()
        return StepResult(self._attempt, events, over=True, lost=lost)


class TuneCallback(tune.Callback):  # type: ignore[misc]
    """Informs the queue about its processes.

    ``arrived`` is called with each process that has started. ``waits_for`` returns what Tune's
    trials wait for, and ``fault`` why no process can start.
    """

    def __init__(
        self,
        queue: "Queue",
        arrived: Callable[[str], None],
        waits_for: Callable[[list[Any]], str],
        fault: Callable[[], str | None],
    ) -> None:
        self.queue = queue
        self.arrived = arrived
        self.waits_for = waits_for
        self.fault = fault
        self.handles: dict[str, Any] = {}
        self.failed_starts = 0  # since a process last started

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Tune stores its callbacks to restore an experiment, but we restore from the study
        on disk."""
        return {}

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any
    ) -> None:
        if "process" in result:
            self._start(trial.trial_id, result.pop("process"))
        # Tune keeps the result of each trial, with all that is left in it
        self.queue.take(trial.trial_id, result["attempt"], result.pop("events"))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.handles.pop(trial.trial_id, None)
        self.queue.end(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if self.queue.knows(trial.trial_id):
            self.queue.lose(trial.trial_id, partial(_death, self.handles.pop(trial.trial_id)))
        else:
            self._did_not_start()

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        """Tune takes SIGUSR1 for itself when it starts, and would end without a word to the
        queue."""
        self.queue.stopping.install()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.queue.stopping.waiting = self.waits_for(trials)
        self.queue.progress.wait(self.queue.stopping.waiting)
        self.queue.tick()

    def _start(self, process: str, handle: Any) -> None:
        self.arrived(process)
        self.failed_starts = 0
        self.handles[process] = handle
        self.queue.start(process, lambda order: handle.obey.remote(order))

    def _did_not_start(self) -> None:
        """Another process follows. A node on which none can start ends the sweep: each trial would
        wait for it."""
        self.failed_starts += 1
        fault = self.fault()
        if fault or self.failed_starts >= FAILED_STARTS:
            self.queue.stopping.end(fault or NO_START)


def _death(process: Any) -> Lost:
    """Why this process died, according to Ray."""
    try:
        ray.get(process.get_current_ip_pid.remote(), timeout=DEATH_S)
    except RayError as error:
        return died(error, "the trial's process")
    return Lost("the trial's process was ended", "")
