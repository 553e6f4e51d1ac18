"""Runs a task's work as one worker of a trial: its checkpoints, its resume, and what it yields as events."""

import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sweeps.events import Evaluated, Evaluating, Event, Finished, Noticed, Report, Resumed, Started, Stopped
from sweeps.planning.load_task import load_task
from sweeps.planning.schema import Schema
from sweeps.processes.alive import alive
from sweeps.processes.meeting_port import use_interface_to
from sweeps.processes.storage import patiently
from sweeps.running.checkpoint_store import CheckpointStore, Restored
from sweeps.running.chosen_start import ChosenStart
from sweeps.running.prepared import prepared_folder
from sweeps.running.system_metrics import with_system_metrics
from sweeps.running.yielded import YIELDS, WrongYieldError, checked_artifacts, finite, next_step, numbers, samples_text
from sweeps.task import Assignment, Checkpoint, Costs, Evaluation, Task, Trial, Worker, Yielded

Found = TypeVar("Found")
Stop = Callable[[], bool]


def work(
    assignment: Assignment, rank: int, world: int, address: str, stop: Stop, chosen_start: ChosenStart | None = None
) -> Generator[Event, None, None]:
    """One worker of the attempt. Workers other than rank zero yield only notices; each must be iterated to its end.

    ``chosen_start`` passes rank zero's choice to the other workers, so that all start from the same checkpoint.
    """
    if world > 1:
        use_interface_to(address)
    task, own = imported(assignment)
    group = assignment, rank, world, address, stop
    events = _Drive(task, *group, chosen_start).events() if own is None else own(*group)
    yield from with_system_metrics(events) if rank == 0 else events


def imported(assignment: Assignment) -> tuple[Task[Any], Worker | None]:
    """The task and its own worker, with all that they import: it takes seconds."""
    task = load_task(assignment.task, Path(assignment.folder))
    module, _, function = (task.worker or "").partition(":")
    return task, getattr(importlib.import_module(module), function) if module else None


class _Drive:
    """One worker of one attempt."""

    def __init__(
        self,
        task: Task[Any],
        assignment: Assignment,
        rank: int,
        world: int,
        address: str,
        stop: Stop,
        chosen_start: ChosenStart | None,
    ) -> None:
        self.task, self.assignment, self.stop = task, assignment, stop
        self.rank, self.world, self.address, self.chosen_start = rank, world, address, chosen_start
        self.config = Schema.of(task).config(assignment.config)
        attempt = assignment.attempt
        self.store = CheckpointStore(assignment.checkpoints, assignment.key, attempt, task.save, task.load)
        self.reports: list[Report] = []
        self.scores: dict[str, dict[str, Any]] = {}
        self.told: set[str] = set()  # metrics that were not finite
        self.costs = task.costs(self.config)
        self.last, self.seconds, self.since = 0, 0.0, 0.0
        self.saved = 0  # the step of the newest checkpoint
        self.safe: int | None = None  # the same, until a report has told it

    def events(self) -> Iterator[Event]:
        if self.rank == 0:
            yield from self._patiently(partial(self.store.claim, self.assignment.run))
        restored = yield from self._restored()
        if self.rank == 0:
            yield Started(_device(self.world), self.world)
            yield from map(Noticed, self.store.notices)
        trial = self._trial(restored)
        self.since = time.monotonic()
        if restored is not None:
            self.reports, self.last, self.seconds = list(restored.reports), restored.step, restored.seconds
            self.saved = restored.step
            if self.rank == 0:
                yield Resumed(restored.step, restored.reports)
        for found in self._work(trial):
            alive()
            if self.rank == 0 and (yield from self._take(found)):
                return
        if self.rank == 0:
            self._refuse_missing_scores()
            yield self._finished()

    def _restored(self) -> Generator[Event, None, Restored | None]:
        if self.chosen_start is None or self.world == 1:
            return (yield from self._patiently(self.store.newest))
        if self.rank == 0:
            restored = yield from self._patiently(self.store.newest)
            self.chosen_start.tell(None if restored is None else restored.start)
        else:
            start = self.chosen_start.told()
            restored = None if start is None else (yield from self._patiently(partial(self.store.at, start)))
        if restored is not None:
            self.chosen_start.loaded(self.rank, self.world)
        return restored

    def _work(self, trial: Trial[Any]) -> Iterator[Yielded]:
        assert self.task.work is not None
        found = self.task.work(trial)
        if not isinstance(found, Iterable):
            raise WrongYieldError(f"work must be a generator function, but it returned {found!r:.40}")
        return iter(found)

    def _trial(self, restored: Restored | None) -> Trial[Any]:
        given = self.assignment
        saved = None if restored is None else Checkpoint(restored.step, restored.state)
        data = prepared_folder(self.task, self.config, Path(given.data_folder), given.data_fingerprint)
        group = self.rank, self.world, self.address
        return Trial(self.config, given.seed, data, saved, self._stopping, *group, given.threads)

    def _stopping(self) -> bool:
        alive()
        return self.stop()

    def _take(self, found: Yielded) -> Generator[Event, None, bool]:
        """Turn what the work yielded into events; returns whether the trial stops here."""
        match found:
            case Noticed():
                yield found
            case Costs():
                self.costs = found
            case Report():
                yield from self._reported(found)
            case Checkpoint(step, state):
                yield from self._save(step, state)
                if self.stop() and step < self.task.steps(self.config):
                    yield Stopped(step)
                    return True
            case Evaluation():
                yield from self._evaluated(found)
            case _:
                raise WrongYieldError(f"work must yield {YIELDS}, not {type(found).__name__}")
        return False

    def _reported(self, found: Report) -> Iterator[Event]:
        step = next_step(found.step, self.reports[-1].step if self.reports else 0, "report")
        self._train_on()
        metrics = numbers(found.metrics, f"the report of step {step}")
        for name in sorted(metrics.keys() - finite(metrics).keys() - self.told):
            self.told.add(name)
            yield Noticed(f"{name} is {metrics[name]} at step {step}; the journal omits non-finite values")
        report = replace(found, step=step, metrics=finite(metrics), checkpoint=self.safe)
        self.last, self.safe = max(self.last, step), None
        self.reports.append(report)
        yield report

    def _save(self, step: int, state: Any) -> Iterator[Event]:
        step = next_step(step, self.saved, "checkpoint")
        self._train_on()
        self.last = max(self.last, step)
        yield from self._patiently(partial(self.store.write, step, state, self.reports, self._seconds()))
        self.safe = self.saved = step

    def _patiently(self, act: Callable[[], Found]) -> Generator[Event, None, Found]:
        """What ``act`` returns, which uses the checkpoints. Raises StorageError."""
        using = patiently(act, self.assignment.checkpoints)
        try:
            while True:
                notice = next(using)
                yield Noticed(f"worker {self.rank}: {notice}" if self.rank else notice)
        except StopIteration as end:
            found: Found = end.value
            return found

    def _evaluated(self, found: Evaluation) -> Iterator[Event]:
        self.seconds, self.since = self._seconds(), 0.0
        if not self.scores:
            yield Evaluating(self.last)
        measured = numbers(found.scores, f"the evaluation of {found.set_name}")
        self.scores[found.set_name] = scores = {**measured, "decode": Schema.of(self.task).scoring(self.config)}
        head = {"key": self.assignment.key, "step": self.last, "scores": scores}
        texts = checked_artifacts(found.artifacts) | samples_text(found.set_name, head, found.samples)
        yield Evaluated(self.last, found.set_name, scores, texts)

    def _finished(self) -> Finished:
        costs = {"params": self.costs.params, "flops": self.costs.flops, "seconds": self._seconds()}
        return Finished(self.last, {**costs, "tokens_per_s": None}, self.scores)

    def _refuse_missing_scores(self) -> None:
        for metric in self.task.metrics:
            if metric.tabled and metric.name not in self.scores.get(metric.set, {}):
                raise WrongYieldError(f"work ended without {metric.name} of {metric.set}, which the table shows")

    def _train_on(self) -> None:
        """Training may go on after an evaluation."""
        self.since = self.since or time.monotonic()

    def _seconds(self) -> float:
        """Training time over all attempts, without evaluation."""
        return self.seconds + (time.monotonic() - self.since if self.since else 0.0)


def _device(world: int) -> str:
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available() and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    name = torch.cuda.get_device_name() if torch is not None and gpu else f"cpu ({platform.machine()})"
    return name if world == 1 else f"{name} × {world}"
