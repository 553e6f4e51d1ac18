"""The trials of a run: which one comes next, what its process is to do, and when it is over.

On Ray many processes take trials; `allelse train` is the only process of its one trial. Which trial
a process gets is decided when it is there. So a trial that lost its workers comes before those that
have not begun.
"""

import re
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from sweeps.processes.events import Assignment, Event, Failed, Finished, Lost, Order
from sweeps.processes.times import POLL_S, POLLS_PER_S, REPEAT_S
from sweeps.running.failures import MAY_BE_MEMORY
from sweeps.running.progress import Progress
from sweeps.running.recording.assignment import WithoutWeightsError
from sweeps.running.recording.recorder import REMOVED, Recorder, RemovedError
from sweeps.running.stopping import Stopping
from tracking.files import DamagedFileError

T = TypeVar("T")
NOTHING = Order(None)
SAME_FAILURES = 3
"""Of trials in a row that fail with the same error at the same place: the next one most likely
would, too."""
ANY_NUMBER = re.compile(r"\d+")
"""In an error, may differ from trial to trial."""
PLACE = re.compile(r'^ *File "(.+)", line (\d+)', re.MULTILINE)
"""A call in a traceback."""


@dataclass
class Busy:
    """A process that runs a trial, until its attempt ends. It receives orders through ``give``."""

    trial: str
    order: Order
    give: Callable[[Order], Any]


class Queue:
    """Assigns trials to processes. Raises UnrecordedError if the study cannot be written.

    ``hosts``: the trial whose weights a trial waits for, by the name of the trial that only scores.
    """

    def __init__(
        self,
        recorders: Mapping[str, Recorder],
        progress: Progress,
        stopping: Stopping,
        max_failures: int,
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        self.recorders = recorders
        self.progress = progress
        self.stopping = stopping
        self._max_failures = max_failures
        self._waiting = deque(recorders)
        self._hosts = {name: host for name, host in (hosts or {}).items() if host in recorders}
        self._trained: set[str] = set()  # trials of this run whose weights can be scored
        self._losses: Counter[str] = Counter()
        self._short: set[str] = set()  # trials whose last attempt ran out of memory
        self._busy: dict[str, Busy] = {}  # by process
        self._removed: set[str] = set()  # trials whose folder was removed while they ran
        # trials whose own stop request was handled
        self._stopped_one_by_one: frozenset[str] = frozenset()
        self._sent_at = 0.0
        self._failures: list[tuple[str, Any]] = []  # error and place, since a trial has finished

    @property
    def waiting(self) -> int:
        """How many more processes the trials could use."""
        return sum(map(self._is_ready, self._waiting))

    @property
    def over(self) -> bool:
        """Whether no process needs to start or to continue."""
        return not (self._waiting or self._busy)

    def knows(self, process: str) -> bool:
        """Whether this process has begun a trial and has not ended."""
        return process in self._busy

    def start(self, process: str, give: Callable[[Order], Any]) -> None:
        """Give a new process the next trial, or an order that there is nothing to do."""
        name = next(filter(self._is_ready, self._waiting), None)
        if self.stopping.requested() or name is None:
            give(NOTHING)
            return
        self._waiting.remove(name)
        assignment = self._begin(name)
        if assignment is None:
            self.start(process, give)
            return
        busy = Busy(name, Order(assignment), give)
        self._busy[process] = busy
        self.progress.start(name)
        self._send([busy])

    def take(self, process: str, attempt: int, events: Sequence[Event]) -> None:
        """Record and show the events of the attempt in this process. Late events of an older
        attempt are dropped."""
        busy = self._busy.get(process)
        if busy is None or busy.trial in self._removed:  # no trial, or its folder is gone
            return
        with suppress(RemovedError):
            for event in events:
                self._take_event(busy.trial, attempt, event)
        self._leave_unscorable()

    def _begin(self, name: str) -> Assignment | None:
        """Record the start of an attempt. None if the trial fails before it: its folder was
        removed, or the weights that it scores are gone."""
        recorder = self.recorders[name]
        try:
            self._record(name, recorder.begin)
            return self._record(name, recorder.assignment)
        except RemovedError:
            return None
        except WithoutWeightsError as error:
            self._fail(name, str(error), "")
            return None

    def _take_event(self, name: str, attempt: int, event: Event) -> None:
        """Record and show one event, unless it is of an older attempt. Raises RemovedError."""
        is_of_this_attempt = self._record(name, partial(self.recorders[name].take, attempt, event))
        if not is_of_this_attempt:
            return
        self.progress.take(name, event)
        self._count(event)
        if isinstance(event, Finished) and event.diverged is None:
            self._trained.add(name)
            self._leave_unscorable_rows(name)

    def _is_ready(self, name: str) -> bool:
        """Whether the trial trains, or the weights that it scores are trained."""
        host = self._hosts.get(name)
        return host is None or host in self._trained

    def _leave_unscorable(self) -> None:
        """Skip the trials whose host ended in this run without weights: a later run may have
        them."""
        over = self.progress.trials.ended() - self._trained
        for name in [name for name in self._waiting if self._hosts.get(name) in over]:
            self._waiting.remove(name)
            self.progress.leave(name, f"{self._hosts[name]} has no weights to score")

    def _leave_unscorable_rows(self, host: str) -> None:
        """Skip the trials that need a step of this host's weights that it has not saved."""
        for name in [name for name in self._waiting if self._hosts.get(name) == host]:
            with suppress(RemovedError):  # it has failed; `start` passes over it
                fault = self._record(name, self.recorders[name].fault_of_weights)
                if fault:
                    self._waiting.remove(name)
                    self.progress.leave(name, f"it {fault}")

    def _count(self, event: Event) -> None:
        if isinstance(event, Finished):
            self._failures.clear()
        if isinstance(event, Failed):
            self._count_failure(event.cause, event.details)

    def _count_failure(self, cause: str, details: str) -> None:
        """End the sweep if trials in a row fail alike, unless a lack of memory explains it."""
        if MAY_BE_MEMORY in cause:
            return
        calls = PLACE.findall(details)
        self._failures.append((ANY_NUMBER.sub("N", cause), calls[-1] if calls else None))
        last = self._failures[-SAME_FAILURES:]
        if len(last) == SAME_FAILURES and len(set(last)) == 1:
            self.stopping.end(
                f"{SAME_FAILURES} trials in a row failed with the same error: {cause}"
            )

    def end(self, process: str) -> None:
        """Note that the process is done with its trial, or had none to begin."""
        busy = self._busy.pop(process, None)
        if busy is not None and busy.trial not in self.progress.trials.ended():
            # it was to stop before it began
            with suppress(RemovedError):
                self._record(busy.trial, partial(self.recorders[busy.trial].end, "interrupted"))
            self.progress.skip(busy.trial)
        self._leave_unscorable()

    def lose(self, process: str, died: Callable[[], Lost]) -> None:
        """Note that the process is gone. Another attempt follows, unless the trial was over.

        ``died`` returns the cause if the workers have not reported one.
        """
        busy = self._busy.pop(process, None)
        if busy is None or busy.trial in self.progress.trials.ended():
            return
        name = busy.trial
        lost = self.recorders[name].lost or died()
        self._losses[name] += 1
        if lost.memory and name in self._short:
            self._fail(name, f"{lost.cause}, for the second time", lost.details)
        elif self._losses[name] > self._max_failures and not lost.unfit:
            self._fail(name, lost.cause, lost.details)
            if not lost.memory:
                self._count_failure(lost.cause, lost.details)
        else:
            self._retry(name, lost)
        self._leave_unscorable()

    def tick(self) -> None:
        """Pass on requests to stop. Raises Interrupted once nothing is running, unless all trials
        have ended."""
        self.progress.tick()
        if self.stopping.requested():
            self._stop()
        requested = self.stopping.trials  # one read: another thread replaces the set
        for name in requested - self._stopped_one_by_one:
            self._stop_one(name)
        self._stopped_one_by_one = requested
        if time.monotonic() - self._sent_at > REPEAT_S:
            self.stopping.seconds_left = self.progress.seconds_left()
            self._sent_at = time.monotonic()
            self._send(self._busy.values())

    def close(self, reason: str = "interrupted") -> None:
        """End the open attempts of a sweep that ends. One that cannot be written is closed by the
        next attempt."""
        for recorder in self.recorders.values():
            with suppress(OSError, DamagedFileError):
                recorder.end(reason)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """On an interruption, end the open attempts and raise Interrupted with one line per running
        trial."""
        try:
            yield
        except KeyboardInterrupt as error:
            # first: another signal may end what follows
            interrupted = self.stopping.with_lines(error, self.progress.trials.resume_lines())
            self.close()
            raise interrupted from None

    def _retry(self, name: str, lost: Lost) -> None:
        """End the attempt. An unfit node ends the sweep: each trial that comes to it would be
        lost."""
        if lost.unfit:
            self.stopping.end(lost.cause)
        self._short = self._short | {name} if lost.memory else self._short - {name}
        try:
            self._record(name, partial(self.recorders[name].give_up, lost.cause, lost.details))
        except RemovedError:
            return
        if self.stopping.requested_for(name):
            self.progress.lose(name, lost.cause)
        else:
            self.progress.retry(name, lost.cause)
            self._waiting.appendleft(name)

    def _fail(self, name: str, cause: str, details: str) -> None:
        with suppress(RemovedError):
            self._record(name, partial(self.recorders[name].fail, cause, details))
            self.progress.fail(name, cause)

    def _stop(self) -> None:
        if not self.progress.stopping:
            self._send(self._busy.values())
            self.progress.stop(self.stopping.fault)
        if not self._busy and not self.progress.trials.complete():
            raise self.stopping.interrupted(self.progress.trials.resume_lines())

    def _stop_one(self, name: str) -> None:
        """Stop one trial after its step; a pending one never starts."""
        if name not in self.recorders or name in self.progress.trials.ended():
            return
        begun = any(busy.trial == name for busy in self._busy.values())
        if not begun:
            self._waiting.remove(name)
        self.progress.stop_one(name, begun)
        self._leave_unscorable()
        self._send(self._busy.values())

    def _send(self, processes: Iterable[Busy]) -> None:
        poll_s = max(POLL_S, len(self._busy) / POLLS_PER_S)
        for busy in processes:
            busy.give(
                replace(busy.order, stop=self.stopping.requested_for(busy.trial), poll_s=poll_s)
            )

    def _record(self, name: str, act: Callable[[], T]) -> T:
        """Call ``act`` and return its result. While storage is away, ``act`` is repeated.

        Raises UnrecordedError, and RemovedError if the trial's folder was removed, which ends the
        trial.
        """
        if name in self._removed:
            raise RemovedError
        try:
            return self.recorders[name].patiently(act, partial(self.progress.notice, name))
        except RemovedError:
            self._end_removed(name)
            raise

    def _end_removed(self, name: str) -> None:
        """Show that the trial's folder was removed, and let its process end."""
        self._removed.add(name)
        self.progress.fail(name, REMOVED)
        for busy in self._busy.values():
            if busy.trial == name:
                busy.order = NOTHING
                self._send([busy])
