"""One attempt at a trial in one worker: find the start, then run the task's work. The work's calls
become events.

Rank zero chooses the checkpoint; all other ranks read that one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sweeps.checkpoints.reader import Restored, Start
from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task, without_arguments
from sweeps.processes.events import (
    About,
    Assignment,
    Event,
    Finished,
    Noticed,
    Resumed,
    SetScores,
    Started,
    Stopped,
)
from sweeps.processes.storage import give_sign_of_life
from sweeps.random_states import random_states, set_random_states
from sweeps.task import NO_TEXTS, Costs, DivergedError, Numbers, Saved, Task, Texts
from sweeps.worker.attempt_costs import AttemptCosts
from sweeps.worker.calls import (
    ONE_WORKER,
    Call,
    WrongCallError,
    evaluation,
    has_diverged,
    missing_score,
    next_step,
    plain,
    printable,
)
from sweeps.worker.last_step import (
    fault_of_training_on,
    known_scores,
    open_checkpoints,
    own_folder,
    planned_unless_reached,
    scored_config,
    take_weights,
)
from sweeps.worker.pace import CpuTime
from sweeps.worker.peers import StopVote, barrier, process_group, use_interface_to
from sweeps.worker.prepared import TaskData
from sweeps.worker.reports import Reports, Unsynced
from sweeps.worker.system_metrics import device
from sweeps.worker.user_code.imports import environment
from tracking.provenance import of_process, versions
from tracking.weights import WEIGHTS

Stop = Callable[[], bool]


class Driver:
    """One worker of one attempt. Creating it imports the task, which may take seconds.

    ``tell`` receives the events of rank zero and the notices of other ranks. The thread that writes
    checkpoints also calls it, with notices.
    """

    def __init__(self, assignment: Assignment, tell: Callable[[Event], None]) -> None:
        self.assignment = assignment
        self.tell = tell
        self.task: Task[Any] = load_task(assignment.task, Path(assignment.folder))
        self.config = Schema.of(self.task).config(assignment.config)
        self.store = open_checkpoints(
            self.task, self.config, assignment, lambda line: tell(Noticed(line))
        )
        self.restored: Restored | None = None
        self.unsynced = Unsynced()
        self.cpu = CpuTime()

    def newest(self) -> Start | None:
        """On rank zero: claim the trial's checkpoints and read the newest whole one. Another
        trial's are only read.

        Raises StorageError, and RefusedError if another trial's last state is missing.
        """
        host = self.assignment.weights
        if host is None:
            self.store.claim(self.assignment.run)
        self.restored = self.store.newest()
        if host is not None:
            take_weights(self.assignment, host, self.restored, self.store.reader)
        return self.restored.start if self.restored else None

    def load(self, start: Start | None) -> None:
        """On other ranks: read the checkpoint that rank zero has chosen."""
        self.restored = None if start is None else self.store.reader.at(start)

    def work(self, rank: int, world: int, address: str, stop: Stop) -> None:
        """Run the task's work and send its events. Raises what the work raises."""
        if world > 1:
            use_interface_to(address)
        self.cpu = CpuTime()
        assignment = self.assignment
        place = Path(assignment.data_folder)
        data = TaskData(self.task, place, assignment.data_fingerprint, assignment.code)
        data_folder = data.open([self.config], assignment.prepared_as)
        attempt = Attempt(self, (rank, world, address), stop, data_folder)
        try:
            with without_arguments():
                self.task.work(attempt)
            attempt.end()
        except DivergedError as error:
            attempt.end_diverged(error)
        finally:
            self.store.close()

    def recorded(self, step: int) -> None:
        """Note that the sweep has written all reports up to this step. Any thread may call this."""
        self.unsynced.recorded = step


class Attempt:
    """The trial, as one worker's work sees it (`sweeps.task.Trial`)."""

    def __init__(self, driver: Driver, group: tuple[int, int, str], stop: Stop, data: Path) -> None:
        self.task = driver.task
        self.assignment = driver.assignment
        self.store = driver.store
        self.tell = driver.tell
        self.rank, self.world, self.address = group
        self.seed = self.assignment.seed
        self.threads = self.assignment.threads
        self.data = data
        self.stop = stop
        self._restored = driver.restored
        self._saved_step = self._restored.saved.step if self._restored else 0
        self._host = self.assignment.weights
        self.config: Any = scored_config(self.task, driver.config, self.assignment)
        self.steps = self.task.steps(self.config)
        self._planned = self.task.steps(driver.config)
        has_all_steps = self._saved_step >= self.steps or self._host is not None
        is_trained = self._restored is not None and has_all_steps
        manifest = self._restored.manifest if self._restored and self._host is None else None
        if manifest:
            driver.unsynced.reports += manifest.reports
        self._reports = Reports(driver.unsynced, self.tell, self._saved_step, again=is_trained)
        self._costs = AttemptCosts(
            self.task, driver.config, self.assignment, self.world, manifest, driver.cpu
        )
        self._time = self._costs.time
        if not is_trained:
            self._time.go_on()
        self.scored = known_scores(self.assignment, self._trained_in) if is_trained else {}
        self._scores: dict[str, SetScores] = {}
        self._trains = False
        self._about: dict[str, Any] = {}
        self._vote = StopVote()
        self._asked_to_stop = False
        self._began = False

    @property
    def saved(self) -> Saved | None:
        """The start. Until training goes on, reading it also restores its random states."""
        if self._restored is None:
            return None
        states = self._restored.manifest.random
        if states is not None and not self._trains:
            set_random_states(states)
        return self._restored.saved

    @property
    def folder(self) -> Path:
        """The work's own files. A trial that only scores starts with a copy of its host's."""
        folder = own_folder(self.assignment)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def report(self, step: int, metrics: Numbers) -> None:
        self._heard()
        self._trains = True
        if self.rank:
            return
        step = self._reports.next_step(step)
        self._refuse_to_train(step)
        values = self._reports.finite_values(step, metrics)
        self._train_until(step)
        self._reports.hold(step, values)
        if not self._asked_to_stop and step < self.steps:
            self._release()

    def checkpoint(
        self, step: int, state: Any, score: float | None = None, *, random: bool = False
    ) -> None:
        self._heard(release=False)
        self._trains = True
        if random and self.world > 1:
            raise WrongCallError(ONE_WORKER)
        states = random_states() if random else None
        if self.rank:
            return
        step = next_step(step, self._saved_step, "checkpoint")
        self._refuse_to_train(step)
        self._train_until(step)
        reports = self._reports.up_to(step)
        spent = self._time
        self.store.save(step, state, spent.seconds, score, reports, spent.cpu_seconds, states)
        self._saved_step = step

    @property
    def kept_steps(self) -> frozenset[int]:
        return frozenset({*self.task.keep(self.config).steps, *self.assignment.kept_steps})

    def _refuse_to_train(self, step: int) -> None:
        """Raises WrongCallError if the work trains another trial's weights, which it scores."""
        if self._host is not None and step > self._saved_step:
            raise WrongCallError(fault_of_training_on(self._host.trial, step, self._saved_step))

    def evaluated(
        self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()
    ) -> None:
        self._heard()
        if self.rank:
            return
        self._time.pause()
        head = self.assignment.head(self._last, self._trained_in)
        event = evaluation(self.task, self.config, Call(on, scores, texts, samples), head)
        self._scores[event.set_name] = event.scores
        self.tell(About({"versions": versions()}))
        self.tell(event)
        self._time.leave_out_pause()

    def notice(self, text: str) -> None:
        self._heard()
        if not self.rank:
            self.tell(Noticed(printable(str(text))))

    def about(self, entries: Mapping[str, Any]) -> None:
        self._heard()
        if not self.rank:
            self._about |= plain(entries, "the entries about a trial")
            self.tell(About({"about": {**self._about}}))

    def spent(self, costs: Costs) -> None:
        self._heard()
        self._costs.replace(costs)

    def stopping(self, *, alone: bool = False) -> bool:
        self._heard()
        self._trains = True
        stops = self.stop() if alone or self.world == 1 else self._vote.agreed(self.stop())
        self._asked_to_stop = self._asked_to_stop or stops
        return stops

    def states(self, steps: Sequence[int]) -> Iterator[Saved]:
        self.store.settle()
        if self.world > 1:
            barrier()
        for saved in self.store.states(steps):
            self._heard()
            yield saved

    def process_group(self, backend: str | None = None) -> AbstractContextManager[None]:
        default = "nccl" if self.assignment.gpus else "gloo"
        return process_group(backend or default, self.address, self.rank, self.world)

    def end(self) -> None:
        """Send the final event. Raises WrongCallError if scores are missing."""
        self._heard()
        if self.rank:
            return
        self.store.settle()
        # a library may be imported only where it is used
        self.tell(About({"versions": versions()}))
        is_complete = self._last >= self.steps
        scores = self._all_scores()
        missing = missing_score(self.task, scores)
        if self._asked_to_stop and (missing or not is_complete):
            self.tell(Stopped(self._saved_step))
            return
        if missing:
            raise WrongCallError(missing)
        if not is_complete:
            self._time.end_at_last_step()
        if self._host is None:
            self.store.tidy()
        diverged = has_diverged(self.task, self.config, scores)
        planned = planned_unless_reached(self._last, self._planned, self.task.early_stop)
        # if no step is known, the whole plan counts
        self._finish(self._last or self._planned, planned, self._last if diverged else None)

    def end_diverged(self, error: DivergedError) -> None:
        """End the attempt as diverged, as the work has reported, with the scores so far."""
        self._heard()  # sends the report of this step
        if self.rank:
            return
        self.store.settle()
        self.tell(Noticed(printable(f"diverged at step {error.step}: {error.why}")))
        self._finish(max(self._last, error.step), None, error.step)

    def _finish(self, trained: int, planned: int | None, diverged: int | None) -> None:
        costs = self._costs.record(trained)
        scores = self._all_scores()
        self.tell(Finished(self._last, costs, scores, planned, diverged, self._trained_in))

    def _all_scores(self) -> dict[str, SetScores]:
        scores = {**self.scored, **self._scores}
        return {set_name: dict(values) for set_name, values in scores.items()}

    @property
    def _last(self) -> int:
        """The last step that was reported or saved."""
        return max(self._reports.last_step, self._saved_step)

    @property
    def _trained_in(self) -> int:
        """The attempt that trained the weights last: an earlier one, unless this one continued."""
        start = self._restored.start.checkpoint if self._restored else None
        return (
            self.assignment.attempt if start is None or self._last > start.step else start.attempt
        )

    def _heard(self, release: bool = True) -> None:
        """Give a sign of life. The first call also sends the start events: only now has the task
        set up its device."""
        give_sign_of_life()
        if not self._began:
            self._began = True
            self._tell_start()
        if release and self._reports.is_holding:
            self.store.settle()
            self._release()

    def _release(self) -> None:
        """Send the report that is held. Before the last one, callers wait for the last
        checkpoint."""
        is_last = self._reports.last_step >= self.steps
        self._reports.send(self.store.written(), is_last)

    def _tell_start(self) -> None:
        if self.rank:
            return
        process = of_process()
        if environment:
            process = process | {"environment": {**environment}}
        self.tell(Started(device(self.world), process=process))
        rate = self._costs.look_at_device(self.task.precision(self.config))
        if rate is not None:
            self.tell(About({"sustained": rate.to_dict()}))
        if self._host is not None:
            self.tell(About({WEIGHTS: self._host.record}))
            scores = f"scores the weights of {self._host.trial} after step {self._host.step}"
            self.tell(Noticed(scores, quiet=True))
        elif self._restored is not None:
            start = self._restored.start.checkpoint
            self.tell(Resumed(start.step, self._restored.manifest.reports, start.attempt))

    def _train_until(self, step: int) -> None:
        """Training goes on, perhaps after an evaluation or beyond planned steps, or ends now."""
        if step > self._last:
            self._time.end_step()
        if step == self.steps:
            self._time.pause()
