"""Tune's events of its trials, recorded and displayed."""

import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ray import tune
from ray.tune.progress_reporter import TrialProgressCallback

from sweeps.events import Failed, Finished, Lost, Stopped
from sweeps.running.bell import ALL
from sweeps.running.deaths import describe
from sweeps.running.patient_record import recorded
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.resources import Wait
from sweeps.running.stopping import Stopping
from tracking.damage import DamagedFileError

Found = TypeVar("Found")
RING_S = 5.0
"""How often the bell rings."""


class SilentProgress(TrialProgressCallback):  # type: ignore[misc]
    """In the place of Tune's own, which prints a line for each trial that a stop leaves unbegun."""

    def _print(self, msg: str) -> None:
        """Nothing."""


class TuneCallback(tune.Callback):  # type: ignore[misc]
    """Gives each attempt its number before its process exists, so that late events of an older attempt are dropped.

    ``bell`` rings when the sweep is stopped.
    """

    def __init__(
        self, recorders: dict[str, Recorder], progress: Progress, stopping: Stopping, bell: Any, max_failures: int
    ) -> None:
        self.recorders, self.progress, self.stopping, self.bell = recorders, progress, stopping, bell
        self.max_failures = max_failures
        self.again: list[str] = []  # trials for the next round, because their process died before they began
        self.stopped: set[str] = set()  # trials that alone were asked to stop
        self.rang = False
        self.rang_at = 0.0  # when the bell last rang for all of them
        self.over = False  # whether all trials of a round have ended
        self.wait = Wait(next(iter(recorders.values())).planned.settings.cluster)
        self.running: set[str] = set()  # trials whose attempt runs

    def __getstate__(self) -> dict[str, Any]:
        """Empty: Tune stores its callbacks to restore an experiment, but we restore from the study on disk."""
        return {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name = trial.config["trial"]
        if self._asked_to_stop(name):  # the trial will return at once
            return
        self._record(name, self.recorders[name].begin)
        self.running.add(name)
        self.progress.start(name)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any) -> None:
        name = trial.config["trial"]
        if self._will_not_begin(name):
            return  # it did not hear that it should not
        for event in result.get("events", ()):
            if self._record(name, partial(self.recorders[name].take, result["attempt"], event)):
                self.progress.take(name, event)
                if isinstance(event, Finished | Failed | Stopped):
                    self.running.discard(name)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.stopping.waiting = self.wait.words(trials)
        self.progress.wait(self.stopping.waiting)
        self.progress.tick()
        if self.stopping.requested():
            self._stop()
        for name in self.stopping.trials - self.stopped:
            self._stop_one(name)
        if time.monotonic() - self.rang_at > RING_S:
            self._ring()
            self.stopping.seconds_left = self.progress.seconds_left()

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A worker was lost: the next attempt starts from the last complete checkpoint."""
        name, lost = trial.config["trial"], self._lost(trial)
        self.running.discard(name)
        if name in self.progress.ended():
            self._end_again(name)
            return
        if self._needs_no_record(name, lost):
            return
        self._give_up(name, lost)
        again = self.recorders[name].assignment()
        trial.config |= {"again": again, "short": lost.memory}  # the next process is made from these

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """A trial that still counts as running returned without an event: the bell rang before it began."""
        name = trial.config["trial"]
        if name in self.running:
            self._record(name, partial(self.recorders[name].end, "interrupted"))
            self.progress.skip(name)
        self.running.discard(name)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        name, lost = trial.config["trial"], self._lost(trial)
        self.running.discard(name)
        if name in self.progress.ended():
            return
        if self._needs_no_record(name, lost):
            self.progress.skip(name)
            return
        if lost.unfit:  # not the trial's fault: it resumes on a node that is right
            self._give_up(name, lost)
            return
        if self._never_began(trial):
            self.again.append(name)
            self.recorders[name].lost = None
            self.progress.retry(name, lost.cause)
            return
        self._record(name, partial(self.recorders[name].fail, lost.cause, lost.details))
        self.progress.fail(name, lost.cause)

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Tune calls it after a fault of its loop, too."""
        self.over = self.recorders.keys() <= self.progress.ended() | {*self.again}

    def _give_up(self, name: str, lost: Lost) -> None:
        """End the attempt. An unfit node ends the sweep: each trial that comes to it would be lost."""
        if lost.unfit:
            self.stopping.end(lost.cause)
        self._record(name, partial(self.recorders[name].give_up, lost.cause, lost.details))
        show = self.progress.lose if self.stopping.requested_for(name) else self.progress.retry
        show(name, lost.cause)

    def _end_again(self, name: str) -> None:
        """Its process died after the trial's end was recorded. Tune starts another one, which returns at once."""
        self.stopped.add(name)
        self._ring()

    def _never_began(self, trial: Any) -> bool:
        """Whether the process of an earlier trial, which Tune kept for this one, died before this one began.

        Tune retries only a trial that is running, and this one is still pending.
        """
        began = self.recorders[trial.config["trial"]].began
        return not began and trial.num_failures <= self.max_failures

    def _will_not_begin(self, name: str) -> bool:
        return self._asked_to_stop(name) and not self.recorders[name].began

    def _needs_no_record(self, name: str, lost: Lost) -> bool:
        """Of a trial that was not to begin. An unfit node still ends a sweep that goes on."""
        return self._will_not_begin(name) and (self.rang or not lost.unfit)

    def _asked_to_stop(self, name: str) -> bool:
        return self.rang or name in self.stopped

    def end(self, reason: str = "interrupted") -> None:
        """End the open attempts of a sweep that ends. One that cannot be written is closed by the next attempt."""
        for recorder in self.recorders.values():
            with suppress(OSError, DamagedFileError):
                recorder.end(reason)

    def _record(self, name: str, act: Callable[[], Found]) -> Found:
        """Raises UnrecordedError."""
        return recorded(act, self.recorders[name].folder.path, partial(self.progress.notice, name))

    def _stop(self) -> None:
        """Ask all trials to stop; raises Interrupted when none is running, unless all have come to their end."""
        if not self.rang:
            self.rang = True
            self._ring()
            self.progress.stop(self.stopping.fault)
        if not self.running and not self.progress.complete():
            raise self.stopping.interrupted(self.progress.left())

    def _stop_one(self, name: str) -> None:
        """Ring the bell for one trial; a pending one never starts."""
        self.stopped.add(name)
        if name in self.recorders and name not in self.progress.ended():
            self._ring()
            self.progress.stop_one(name, begun=name in self.running)

    def _ring(self) -> None:
        """For all that were asked to stop, again and again: the bell's process may have died meanwhile."""
        self.rang_at = time.monotonic()
        keys = [self.recorders[name].planned.trial.key for name in self.stopped & self.recorders.keys()]
        for key in [ALL] * self.rang + keys:
            self.bell.ring.remote(key)

    def _lost(self, trial: Any) -> Lost:
        """Why the trial's process ended: its own last event is the best source."""
        reported = self.recorders[trial.config["trial"]].lost
        return reported or describe(_error(trial), "the trial's process")


def _error(trial: Any) -> BaseException:
    """The error that Tune saved on this machine; ``trial.get_error()`` reads an upload that may not exist yet."""
    path = trial.pickled_error_file
    with suppress(OSError, EOFError, pickle.UnpicklingError):  # a full disk cuts it
        if path and Path(path).is_file():
            error: BaseException = pickle.loads(Path(path).read_bytes())
            return error
    return RuntimeError("Tune saved no cause")
