"""One attempt at a trial, as one worker runs it: find the start, then let the task work. What it says becomes events.

Rank zero names the checkpoint that all start from; the others read that one, and no other.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task, without_arguments
from sweeps.processes.storage import alive
from sweeps.task import NO_TEXTS, Costs, DivergedError, Keep, Numbers, RefusedError, Saved, Task, Texts
from sweeps.worker.calls import (
    Call,
    WrongCallError,
    checked_costs,
    evaluation,
    finite,
    has_diverged,
    next_step,
    numbers,
    plain,
    printable,
)
from sweeps.worker.checkpoint_files import copy_work_files
from sweeps.worker.checkpoints import Checkpoints, OwnFormat, Restored, Start, work_folder
from sweeps.worker.code_imports import environment
from sweeps.worker.device_rate import DeviceRate, measured_rate, paper_costs, typed_rate
from sweeps.worker.events import (
    About,
    Assignment,
    Event,
    Finished,
    HostWeights,
    Noticed,
    Report,
    Resumed,
    Started,
    Stopped,
    Unsynced,
)
from sweeps.worker.last_step import scored_config, without_last_state
from sweeps.worker.pace import CpuTime, Group, Spent, TrainingTime, pace_record, reset_peak_memory
from sweeps.worker.peers import StopVote, barrier, process_group, use_interface_to
from sweeps.worker.prepared import prepared_folder
from sweeps.worker.system_metrics import SystemMetrics, device
from tracking.provenance import of_process, versions
from tracking.weights import WEIGHTS

Stop = Callable[[], bool]
JOINED = "step {step} was reported more than once: the reports of a step are merged, the later value of a metric counts"


class Driver:
    """One worker of one attempt. To make one imports the task, which may take seconds.

    ``tell`` takes the events of rank zero, and notices of the others; a thread that writes checkpoints tells notices.
    """

    def __init__(self, assignment: Assignment, tell: Callable[[Event], None]) -> None:
        self.assignment = assignment
        self.tell = tell
        self.task: Task[Any] = load_task(assignment.task, Path(assignment.folder))
        self.config = Schema.of(self.task).config(assignment.config)
        self.store = self._store()
        self.restored: Restored | None = None
        self.unsynced = Unsynced()
        self.cpu = CpuTime()

    def _store(self) -> Checkpoints:
        """The trial's own checkpoints, or those of the trial whose weights it only scores."""
        given = self.assignment
        own = OwnFormat.of(self.task)

        def tell(line: str) -> None:
            self.tell(Noticed(line))

        if (host := given.weights) is not None:
            return Checkpoints(host.checkpoints, host.key, host.attempt, Keep(), own, tell, host.lineage)
        keep = self.task.keep(self.config)
        keep = replace(keep, steps=sorted({*keep.steps, *given.kept_steps}))
        return Checkpoints(given.checkpoints, given.key, given.attempt, keep, own, tell, given.lineage, given.code)

    def newest(self) -> Start | None:
        """Own the trial's checkpoints, and read the newest whole one: on rank zero. Another trial's are only read.
        Raises StorageError, and RefusedError if another trial's last state is missing."""
        host = self.assignment.weights
        if host is None:
            self.store.claim(self.assignment.run)
        self.restored = self.store.newest()
        if host is not None:
            self._take_from(host)
        return self.restored.start if self.restored else None

    def _take_from(self, host: HostWeights) -> None:
        """Another trial's weights, with the files that its work left. Raises RefusedError if its last state is gone."""
        own = self.assignment
        place = self.restored.start.place if self.restored else None
        if place is None or not host.are_in(place.attempt, place.step):
            raise RefusedError([without_last_state(own.trial, host.trial, host.step, self.store.steps())])
        source = work_folder(host.checkpoints, host.key, host.lineage)
        copy_work_files(source, work_folder(own.checkpoints, own.key, own.lineage))

    def load(self, start: Start | None) -> None:
        """Read the checkpoint that rank zero has named: on the other workers."""
        self.restored = None if start is None else self.store.at(start)

    def work(self, rank: int, world: int, address: str, stop: Stop) -> None:
        """Call the task's work; its events are told. Raises what the work raises."""
        if world > 1:
            use_interface_to(address)
        self.cpu = CpuTime()
        place = Path(self.assignment.data_folder)
        identity = self.assignment.prepared_as
        fingerprint = self.assignment.data_fingerprint
        code = self.assignment.code
        data = prepared_folder(self.task, [self.config], place, fingerprint, identity, code)
        attempt = Attempt(self, (rank, world, address), stop, data)
        try:
            with without_arguments():
                self.task.work(attempt)
            attempt.end()
        except DivergedError as error:
            attempt.end_diverged(error)
        finally:
            self.store.close()

    def recorded(self, step: int) -> None:
        """The sweep has written the reports up to this step. Another thread may say so."""
        self.unsynced.recorded = step


class Attempt:
    """The trial, as one worker's work sees it (`sweeps.task.Trial`)."""

    def __init__(self, driver: Driver, group: tuple[int, int, str], stop: Stop, data: Path) -> None:
        self.task = driver.task
        self.given = driver.assignment
        self.store = driver.store
        self.tell = driver.tell
        self.rank, self.world, self.address = group
        self.seed = self.given.seed
        self.threads = self.given.threads
        self.data = data
        self.stop = stop
        self._restored = driver.restored
        self._unsynced = driver.unsynced
        self.saved = self._restored.saved if self._restored else None
        self._reported = self._saved_step = self.saved.step if self.saved else 0
        self._host = self.given.weights
        self.config: Any = scored_config(self.task, driver.config, self.given)
        self.steps = self.task.steps(self.config)
        self._planned = self.task.steps(driver.config)
        whole = self._saved_step >= self.steps or self._host is not None
        trained = self._restored if self._restored and whole else None
        heads = self.given.evaluated.items() if trained else ()
        self.scored: Mapping[str, Numbers] = {
            on: head["scores"] for on, head in heads if head.get("attempt") == self._trained_in
        }
        self._scores: dict[str, dict[str, Any]] = {}
        self._costs = checked_costs(self.task.costs(driver.config))
        before = self._restored.manifest if self._restored and self._host is None else None
        self._time = TrainingTime(before.seconds if before else 0.0, before.cpu_seconds if before else 0.0, driver.cpu)
        if not trained:
            self._time.go_on()
        if self._restored and self._host is None:
            self._unsynced.reports += self._restored.manifest.reports
        self._newest = Report(self._reported, {}) if trained else None  # the report that others of its step join
        self._held: Report | None = None  # the last report
        self._joins = self._said_that_reports_join = False
        self._about: dict[str, Any] = {}
        self._system = SystemMetrics()
        self._not_finite: set[str] = set()
        self._vote = StopVote()
        self._asked_to_stop = self._began = False
        self._rate: DeviceRate | None = None
        self._arrived, self._arrived_cpu = time.monotonic(), time.process_time()
        self._trained_before = self._time.seconds
        reset_peak_memory()

    @property
    def folder(self) -> Path:
        """Its own; what the training of another trial's weights left there was copied into it."""
        folder = work_folder(self.given.checkpoints, self.given.key, self.given.lineage)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def report(self, step: int, metrics: Numbers) -> None:
        self._heard()
        if self.rank:
            return
        step = next_step(step, self._reported, "report", again=self._newest is not None)
        self._refuse_to_train(step)
        found = numbers(metrics, f"the report of step {step}")
        self._tell_not_finite(step, found)
        self._train_until(step)
        self._hold(Report(step, self._system.with_metrics(finite(found))))
        if not self._asked_to_stop and step < self.steps:
            self._release()

    def _hold(self, report: Report) -> None:
        """Reports of one step are one, such as those of training and of an evaluation."""
        self._joins = self._newest is not None and self._newest.step == report.step
        if self._joins and self._newest is not None:
            report = replace(report, metrics=self._newest.metrics | report.metrics)
        if self._joins and not self._said_that_reports_join:
            self._said_that_reports_join = True
            self.tell(Noticed(JOINED.format(step=report.step), quiet=True))
        self._reported = report.step
        self._newest = self._held = report

    def checkpoint(self, step: int, state: Any, score: float | None = None) -> None:
        self._heard(release=False)
        if self.rank:
            return
        step = next_step(step, self._saved_step, "checkpoint")
        self._refuse_to_train(step)
        self._train_until(step)
        held = [self._held] if self._held and self._held.step <= step else []
        reports = {report.step: report for report in [*self._unsynced.up_to(step), *held]}
        self.store.save(step, state, self._time.seconds, score, reports.values(), self._time.cpu_seconds)
        self._saved_step = step

    @property
    def kept_steps(self) -> frozenset[int]:
        return frozenset({*self.task.keep(self.config).steps, *self.given.kept_steps})

    def _refuse_to_train(self, step: int) -> None:
        """Weights of another trial stay as they are. Raises WrongCallError."""
        if self._host is not None and step > self._saved_step:
            trains = f"work went on to step {step}, but this trial only scores the weights of {self._host.trial}"
            raise WrongCallError(f"{trains} after step {self._saved_step}: train only while steps are left")

    def evaluated(self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()) -> None:
        self._heard()
        if self.rank:
            return
        self._time.pause()
        head = {"key": self.given.key, "step": self._last, "attempt": self._trained_in}
        head |= {"code": self.given.code} if self.given.code else {}
        head |= {WEIGHTS: self._host.record} if self._host else {}
        event = evaluation(self.task, self.config, Call(on, scores, texts, samples), head)
        self._scores[event.set_name] = event.scores
        self.tell(About({"versions": versions()}))
        self.tell(event)
        self._time.pause()  # from here on, training may go on

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
        self._costs = checked_costs(costs)

    def stopping(self, *, alone: bool = False) -> bool:
        self._heard()
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
        own = "nccl" if self.given.gpus else "gloo"
        return process_group(backend or own, self.address, self.rank, self.world)

    def end(self) -> None:
        """The work has returned: tell how the attempt ended. Raises WrongCallError if scores are missing."""
        self._heard()
        if self.rank:
            return
        self.store.settle()
        self.tell(About({"versions": versions()}))  # a library may be imported only where it is used
        whole = self._last >= self.steps
        scores = self._all_scores()
        missing = [
            metric for metric in self.task.metrics if metric.tabled and metric.name not in scores.get(metric.set, {})
        ]
        if self._asked_to_stop and (missing or not whole):
            self.tell(Stopped(self._saved_step))
            return
        if missing:
            raise WrongCallError(f"work ended without {missing[0].name} of {missing[0].set}, which the table shows")
        if self._host is None:
            self.store.tidy()
        diverged = has_diverged(self.task, self.config, scores)
        self._finish(self._planned_unless_reached(), self._last if diverged else None)

    def _planned_unless_reached(self) -> int | None:
        """The planned steps if training ended before them, or if no step of several was ever reported or saved."""
        if self._last == 0:
            return self._planned if self._planned > 1 else None
        return self._planned if self._last < self._planned and not self.task.early_stop else None

    def end_diverged(self, error: DivergedError) -> None:
        """The work has found that training diverged: the trial ends so, with the scores that it has."""
        if self.rank:
            return
        self.store.settle()
        self.tell(Noticed(printable(f"diverged at step {error.step}: {error.why}")))
        self._finish(None, error.step)

    def _finish(self, planned: int | None, diverged: int | None) -> None:
        costs: dict[str, Any] = {
            "params": self._costs.params,
            "flops": self._costs.flops if self._host is None else 0.0,
            "seconds": self._time.seconds,
            "cpu_seconds": self._time.cpu_seconds,
        }
        if self._time.seconds > self._trained_before:  # an attempt that only scores measures nothing of training
            costs |= {**self._device_costs(), "pace": self._pace()}
        self.tell(Finished(self._last, costs, self._all_scores(), planned, diverged, self._trained_in))

    def _device_costs(self) -> dict[str, Any]:
        """What the paper's way of counting needs, as far as it is known; {} for a part of a GPU."""
        devices = self.world * max(1.0, self.given.gpus)
        rate = self._rate
        of_task = self._about.get("flops_per_s", {}).get("sustained")
        if of_task and self.given.sustained_tflops is None:
            rate = DeviceRate(of_task / devices, "table")
        if rate is None or 0 < self.given.gpus < 1:
            return {}
        costs = paper_costs(rate.flops_per_s * devices, self._time.seconds, self._costs.flops)
        return {**costs, "sustained": rate.to_dict()}

    def _pace(self) -> dict[str, Any]:
        """What plans predict from (`sweeps.costs`)."""
        group = Group(self.world, self.threads, self.given.gpus)
        training = self._time.seconds - self._trained_before
        here = Spent(time.monotonic() - self._arrived - training, time.process_time() - self._arrived_cpu)
        return pace_record(self.task, self.config, self.given.data_fingerprint, group, here)

    def _all_scores(self) -> dict[str, dict[str, Any]]:
        return {on: dict(of) for on, of in {**self.scored, **self._scores}.items()}

    @property
    def _last(self) -> int:
        """The last step that was reported or saved."""
        return max(self._reported, self._saved_step)

    @property
    def _trained_in(self) -> int:
        """The attempt that trained the weights last: an earlier one, unless this one went on."""
        before = self._restored.start.place if self._restored else None
        return self.given.attempt if before is None or self._last > before.step else before.attempt

    def _heard(self, release: bool = True) -> None:
        """The trial lives. The first call also tells what the attempt starts from: by now the task has its device."""
        alive()
        if not self._began:
            self._began = True
            self._tell_start()
        if release and self._held is not None:
            self.store.settle()
            self._release()

    def _release(self) -> None:
        """Tell the report. The last one waits for the last checkpoint, and tells of it."""
        assert self._held is not None
        report = self._held
        self._held = None
        told = self._unsynced.told(report, self.store.written(), self._joins)
        self.tell(replace(told, synced=told.synced or report.step >= self.steps))

    def _tell_start(self) -> None:
        if self.rank:
            return
        process = of_process() | ({"environment": {**environment}} if environment else {})
        self.tell(Started(device(self.world), self.world, process=process))
        self._look_at_device()
        if self._host is not None:
            self.tell(About({WEIGHTS: self._host.record}))
            scores = f"scores the weights of {self._host.trial} after step {self._host.step}"
            self.tell(Noticed(scores, quiet=True))
        elif self._restored is not None:
            place = self._restored.start.place
            reports = self._restored.manifest.reports
            self.tell(Resumed(place.step, reports, place.attempt))

    def _look_at_device(self) -> None:
        """Find out what it sustains: the seconds of training leave the time for it out."""
        tflops = self.given.sustained_tflops
        with self._time.left_out():
            self._rate = measured_rate(self.task.precision(self.config)) if tflops is None else typed_rate(tflops)
        if self._rate is not None:
            self.tell(About({"sustained": self._rate.to_dict()}))

    def _tell_not_finite(self, step: int, metrics: Mapping[str, float]) -> None:
        for each in sorted(metrics.keys() - finite(metrics).keys() - self._not_finite):
            self._not_finite.add(each)
            self.tell(Noticed(f"{each} is {metrics[each]} at step {step}; the journal omits non-finite values"))

    def _train_until(self, step: int) -> None:
        """Training goes on, perhaps after an evaluation, or ends with this step."""
        if step > self._last:
            self._time.go_on()
        if step >= self.steps:
            self._time.pause()
