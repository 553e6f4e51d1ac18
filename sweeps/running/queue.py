"""The trials of a sweep: which one comes next, what its process is to do, and when it is over.

Ray Tune finds room for processes, starts them, and keeps them for the next trial. Which trial one of them gets is
decided when it is there. So a trial that lost its workers comes before those that have not begun.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray import tune
from ray.exceptions import RayError
from ray.tune.search import Searcher

from sweeps.config.settings import Cluster, Settings
from sweeps.preflight.checks import node_faults
from sweeps.preflight.node_facts import Packages
from sweeps.processes.ray_private import silent_progress
from sweeps.processes.storage import FIXES
from sweeps.processes.times import ASK_FREE_S, DEATH_S, EXPLAINED_AFTER_S, POLL_S, POLLS_PER_S, REPEAT_S
from sweeps.running.failures import MAY_BE_MEMORY, died
from sweeps.running.group import TrialProcess, bundles
from sweeps.running.progress import Progress
from sweeps.running.recorder import REMOVED, Recorder, RemovedError
from sweeps.running.stopping import Stopping
from sweeps.worker.events import Event, Failed, Finished, Lost, Order, Report, Resumed
from tracking.files import DamagedFileError
from tracking.provenance import Code

T = TypeVar("T")
NOTHING = Order(None)
NO_START = "no trial process starts; see Ray's logs"
FAILED_STARTS = 5
"""After so many, one after another, there is no hope."""

SAME_FAILURES = 3
"""Of trials in a row that fail with one error before they report: as long as nothing has succeeded, all would."""
ANY_NUMBER = re.compile(r"\d+")
"""In an error, may differ from trial to trial."""


class Queue:
    """Raises UnrecordedError if the study cannot be written."""

    def __init__(
        self, recorders: Mapping[str, Recorder], progress: Progress, stopping: Stopping, max_failures: int
    ) -> None:
        self.recorders, self.progress, self.stopping = recorders, progress, stopping
        self._max_failures = max_failures
        self._waiting = deque(recorders)
        self._losses: Counter[str] = Counter()
        self._short: set[str] = set()  # trials whose last attempt ran out of memory
        self._orders: dict[str, Order] = {}  # by process
        self._give: dict[str, Callable[[Order], Any]] = {}  # to a process
        self._running: dict[str, str] = {}  # trials by process, until their attempt ends
        self._removed: set[str] = set()  # trials whose folder was removed while they ran
        self._said_stop = False
        self._said_of: frozenset[str] = frozenset()  # trials that alone were asked to stop
        self._sent_at = 0.0
        self._succeeds = len(progress.plan.pending) < len(progress.plan.trials)  # whether any trial ever has reported
        self._failures: list[str] = []  # the errors of trials that failed before that

    @property
    def waiting(self) -> int:
        """How many processes more the trials could use."""
        return len(self._waiting)

    @property
    def over(self) -> bool:
        """Whether no process needs to come or to go on."""
        return not (self._waiting or self._running)

    def knows(self, process: str) -> bool:
        """Whether this process has begun a trial and has not ended."""
        return process in self._orders

    def start(self, process: str, give: Callable[[Order], Any]) -> None:
        """A process is there, which takes orders by ``give``: the next trial begins, or there is nothing to do."""
        if self.stopping.requested() or not self._waiting:
            give(NOTHING)
            return
        name = self._waiting.popleft()
        recorder = self.recorders[name]
        self._record(name, recorder.begin)
        if name in self._removed:
            self.start(process, give)
            return
        self._running[process], self._give[process] = name, give
        self.progress.start(name)
        self._orders[process] = Order(recorder.assignment())
        self._send([process])

    def take(self, process: str, attempt: int, events: Sequence[Event]) -> None:
        """Record and show what the attempt in this process tells. Late events of an older attempt are dropped."""
        name = self._running.get(process)
        if name is None or name in self._removed:  # it was told to begin none, or to stop
            return
        for event in events:
            if self._record(name, partial(self.recorders[name].take, attempt, event)):
                self.progress.take(name, event)
                self._count(event)

    def _count(self, event: Event) -> None:
        self._succeeds = self._succeeds or isinstance(event, Report | Resumed | Finished)
        if isinstance(event, Failed):
            self._count_failure(event.cause)

    def _count_failure(self, cause: str) -> None:
        """End the sweep if each trial fails at its beginning with one error, which no lack of memory explains."""
        if self._succeeds or MAY_BE_MEMORY in cause:
            return
        self._failures.append(ANY_NUMBER.sub("N", cause))
        last = self._failures[-SAME_FAILURES:]
        if len(last) == SAME_FAILURES and len(set(last)) == 1:
            self.stopping.end(f"{SAME_FAILURES} trials in a row failed before their first report: {cause}")

    def end(self, process: str) -> None:
        """The process has no more to do for its trial, or was told to begin none."""
        self._orders.pop(process, None)
        self._give.pop(process, None)
        name = self._running.pop(process, None)
        if name is not None and name not in self.progress.ended():  # it was to stop before it began
            self._record(name, partial(self.recorders[name].end, "interrupted"))
            self.progress.skip(name)

    def lose(self, process: str, died: Callable[[], Lost]) -> None:
        """The process is gone: another attempt follows, unless the trial was over. Its workers may have told why."""
        self._orders.pop(process, None)
        self._give.pop(process, None)
        name = self._running.pop(process, None)
        if name is None or name in self.progress.ended():
            return
        lost = self.recorders[name].lost or died()
        self._losses[name] += 1
        if lost.memory and name in self._short:
            self._fail(name, f"{lost.cause}, for the second time", lost.details)
        elif self._losses[name] > self._max_failures and not lost.unfit:
            self._fail(name, lost.cause, lost.details)
            if not lost.memory:
                self._count_failure(lost.cause)
        else:
            self._retry(name, lost)

    def tick(self) -> None:
        """Pass on requests to stop. Raises Interrupted once nothing runs any more, unless all trials have ended."""
        self.progress.tick()
        if self.stopping.requested():
            self._stop()
        for name in self.stopping.trials - self._said_of:
            self._stop_one(name)
        self._said_of = self.stopping.trials
        if time.monotonic() - self._sent_at > REPEAT_S:
            self.stopping.seconds_left = self.progress.seconds_left()
            self._sent_at = time.monotonic()
            self._send(self._orders)

    def close(self, reason: str = "interrupted") -> None:
        """End the open attempts of a sweep that ends. One that cannot be written is closed by the next attempt."""
        for recorder in self.recorders.values():
            with suppress(OSError, DamagedFileError):
                recorder.end(reason)

    def _retry(self, name: str, lost: Lost) -> None:
        """End the attempt. An unfit node ends the sweep: each trial that comes to it would be lost."""
        if lost.unfit:
            self.stopping.end(lost.cause)
        self._short = self._short | {name} if lost.memory else self._short - {name}
        self._record(name, partial(self.recorders[name].give_up, lost.cause, lost.details))
        if name in self._removed:
            return
        if self.stopping.requested_for(name):
            self.progress.lose(name, lost.cause)
        else:
            self.progress.retry(name, lost.cause)
            self._waiting.appendleft(name)

    def _fail(self, name: str, cause: str, details: str) -> None:
        self._record(name, partial(self.recorders[name].fail, cause, details))
        if name not in self._removed:
            self.progress.fail(name, cause)

    def _stop(self) -> None:
        if not self._said_stop:
            self._said_stop = True
            self._send(self._orders)
            self.progress.stop(self.stopping.fault)
        if not self._running and not self.progress.complete():
            raise self.stopping.interrupted(self.progress.left())

    def _stop_one(self, name: str) -> None:
        """Stop one trial after its step; a pending one never starts."""
        if name not in self.recorders or name in self.progress.ended():
            return
        begun = name in self._running.values()
        if not begun:
            self._waiting.remove(name)
        self.progress.stop_one(name, begun)
        self._send(self._orders)

    def _send(self, processes: Iterable[str]) -> None:
        poll_s = max(POLL_S, len(self._orders) / POLLS_PER_S)
        stops = {process for process, name in self._running.items() if self.stopping.requested_for(name)}
        for each in processes:
            self._give[each](replace(self._orders[each], stop=each in stops, poll_s=poll_s))

    def _record(self, name: str, act: Callable[[], T]) -> T | None:
        """What ``act`` returns; None once the trial's folder was removed, which ends it. Raises UnrecordedError."""
        if name in self._removed:
            return None
        try:
            return self.recorders[name].patiently(act, partial(self.progress.notice, name))
        except RemovedError:
            self._removed.add(name)
            self.progress.fail(name, REMOVED)
            for process in [process for process, trial in self._running.items() if trial == name]:
                self._orders[process] = NOTHING
                self._send([process])
            return None


class Places(Searcher):  # type: ignore[misc]
    """Lets Tune look for room for as many processes as trials wait."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self.queue = queue
        self.asked: set[str] = set()  # processes that are not there yet

    def suggest(self, trial_id: str) -> Any:
        if self.queue.over:
            return Searcher.FINISHED
        if len(self.asked) >= self.queue.waiting:
            return None
        self.asked.add(trial_id)
        return {"place": trial_id}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.asked.discard(trial_id)

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Tune stores its searcher to restore an experiment, but we restore from the study on disk."""
        return {}


class TuneCallback(tune.Callback):  # type: ignore[misc]
    """Tells the queue what becomes of its processes."""

    def __init__(self, queue: Queue, places: Places, settings: Settings) -> None:
        self.queue, self.places, self.settings, self.wait = queue, places, settings, Wait(settings.cluster)
        self.handles: dict[str, Any] = {}
        self.failed_starts = 0  # since a process last started

    def __getstate__(self) -> dict[str, Any]:
        """Empty, for the same reason."""
        return {}

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        if "process" in result:
            self._start(trial.trial_id, result.pop("process"))
        self.queue.take(trial.trial_id, result["attempt"], result["events"])

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.handles.pop(trial.trial_id, None)
        self.queue.end(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if self.queue.knows(trial.trial_id):
            self.queue.lose(trial.trial_id, partial(_death, self.handles.pop(trial.trial_id)))
        else:
            self._did_not_start()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.queue.stopping.waiting = self.wait.words(trials)
        self.queue.progress.wait(self.queue.stopping.waiting)
        self.queue.tick()

    def _start(self, process: str, handle: Any) -> None:
        self.places.asked.discard(process)
        self.failed_starts = 0
        self.handles[process] = handle
        self.queue.start(process, lambda order: handle.obey.remote(order))

    def _did_not_start(self) -> None:
        """Another process follows. A node on which none can start ends the sweep: each trial would wait for it."""
        self.failed_starts += 1
        fault = next(iter(node_faults(self.settings)), None)
        if fault or self.failed_starts >= FAILED_STARTS:
            self.queue.stopping.end(fault or NO_START)


def _death(process: Any) -> Lost:
    """Why this process died, as Ray tells who asks it."""
    try:
        ray.get(process.get_current_ip_pid.remote(), timeout=DEATH_S)
    except RayError as error:
        return died(error, "the trial's process")
    return Lost("the trial's process was ended", "")


def run_on_tune(settings: Settings, queue: Queue, storage: Path, packages: Packages | None, code: Code | None) -> None:
    """Until the queue is over. Raises Interrupted, UnrecordedError, OSError."""
    cluster, places = settings.cluster, Places(queue)
    given = {"cluster": cluster, "stall_s": 60 * settings.sweep.stall_minutes, "packages": packages, "code": code}
    process = tune.with_resources(tune.with_parameters(TrialProcess, **given), bundles(cluster))
    process.__name__ = process.__qualname__ = TrialProcess.__name__  # as Ray's tools and ps show it
    tuner = tune.Tuner(
        process,
        tune_config=tune.TuneConfig(search_alg=places, reuse_actors=True, num_samples=-1),
        run_config=tune.RunConfig(
            storage_path=str(storage),
            verbose=0,
            callbacks=[TuneCallback(queue, places, settings), silent_progress()],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    try:
        tuner.fit()
    except tune.TuneError as error:
        if isinstance(error.__context__, OSError) and error.__context__.errno in FIXES:  # of Tune's own files
            raise error.__context__ from None
        raise
    except ValueError:  # at its end Tune reads files of its own, which do not fit on a full disk; ours have the results
        if not queue.over:
            raise


class Wait:
    """How long no trial could run, and for what they wait. Ray is asked only then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._since, self._asked, self._words = cluster, time.monotonic(), 0.0, ""

    def words(self, trials: list[Any]) -> str:
        """Such as "4 GPUs, 2 are free" after a wait of 30 s; "" while a trial runs."""
        now = time.monotonic()
        states = {trial.status for trial in trials}
        if "RUNNING" in states or "PENDING" not in states:
            self._since, self._words = now, ""
        elif now - self._since > EXPLAINED_AFTER_S and now - self._asked > ASK_FREE_S:
            self._asked, self._words = now, self._short(ray.available_resources())
        return self._words

    def _short(self, free: dict[str, float]) -> str:
        """``free`` holds what all nodes have left, by kind."""
        cluster = self._cluster
        needs = {"GPU": cluster.gpus_per_worker * cluster.workers, "CPU": cluster.cpus_per_worker * cluster.workers}
        short = [kind for kind, count in needs.items() if count > free.get(kind, 0)]
        kind = next(iter(short), "GPU" if needs["GPU"] else "CPU")
        are, spread = free.get(kind, 0), "" if short else ", but not where a whole worker group fits"
        return f"{needs[kind]:g} {kind}{'s' * (needs[kind] != 1)}, {are:g} {'is' if are == 1 else 'are'} free{spread}"
