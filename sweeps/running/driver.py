"""Runs a task's work as one worker of a trial: its checkpoints, its resume, and what it yields as events."""

import importlib
import os
import platform
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.events import Evaluated, Evaluating, Event, Finished, Noticed, Report, Resumed, Started, Stopped
from sweeps.planning.load_task import load_task
from sweeps.planning.schema import Schema
from sweeps.running.checkpoint_store import CheckpointStore, Restored
from sweeps.running.prepared import prepared_folder
from sweeps.task import Assignment, Checkpoint, Costs, Evaluation, Task, Trial, Worker, Yielded

Stop = Callable[[], bool]


def work(assignment: Assignment, rank: int, world: int, address: str, stop: Stop) -> Iterator[Event]:
    """One worker of the attempt. Only rank zero yields events, but every worker must be iterated to its end."""
    task, own = imported(assignment)
    if own is not None:
        yield from own(assignment, rank, world, address, stop)
    else:
        yield from _Drive(task, assignment, rank, world, address, stop).events()


def imported(assignment: Assignment) -> tuple[Task[Any], Worker | None]:
    """The task and its own worker, with all that they import: it takes seconds."""
    task = load_task(assignment.task, Path(assignment.folder))
    module, _, function = (task.worker or "").partition(":")
    return task, getattr(importlib.import_module(module), function) if module else None


class _Drive:
    """One worker of one attempt."""

    def __init__(
        self, task: Task[Any], assignment: Assignment, rank: int, world: int, address: str, stop: Stop
    ) -> None:
        self.task, self.assignment, self.stop = task, assignment, stop
        self.rank, self.world, self.address = rank, world, address
        self.config = Schema.of(task).config(assignment.config)
        attempt = assignment.attempt
        self.store = CheckpointStore(assignment.checkpoints, assignment.key, attempt, task.save, task.load)
        self.reports: list[Report] = []
        self.scores: dict[str, dict[str, Any]] = {}
        self.costs = task.costs(self.config)
        self.last, self.seconds, self.since = 0, 0.0, 0.0
        self.safe: int | None = None  # the step of a checkpoint that no report has told yet

    def events(self) -> Iterator[Event]:
        restored = self.store.newest()
        if self.rank == 0:
            yield Started(_device(self.world), self.world)
            yield from map(Noticed, self.store.notices)
        trial = self._trial(restored)
        self.since = time.monotonic()
        if restored is not None:
            self.reports, self.last, self.seconds = list(restored.reports), restored.step, restored.seconds
            if self.rank == 0:
                yield Resumed(restored.step, restored.reports)
        for found in self._work(trial):
            if self.rank == 0 and (yield from self._take(found)):
                return
        if self.rank == 0:
            self._refuse_missing_scores()
            yield self._finished()

    def _work(self, trial: Trial[Any]) -> Iterator[Yielded]:
        assert self.task.work is not None
        return self.task.work(trial)

    def _trial(self, restored: Restored | None) -> Trial[Any]:
        given = self.assignment
        saved = None if restored is None else Checkpoint(restored.step, restored.state)
        data = prepared_folder(self.task, self.config, Path(given.data_folder), given.data_fingerprint)
        group = self.rank, self.world, self.address
        return Trial(self.config, given.seed, data, saved, self.stop, *group, given.threads)

    def _take(self, found: Yielded) -> Generator[Event, None, bool]:
        """Turn what the work yielded into events; returns whether the trial stops here."""
        match found:
            case Noticed():
                yield found
            case Costs():
                self.costs = found
            case Report():
                yield self._report(found)
            case Checkpoint(step, state):
                self._save(step, state)
                if self.stop() and step < self.task.steps(self.config):
                    yield Stopped(step)
                    return True
            case Evaluation():
                yield from self._evaluated(found)
            case _:
                kind = type(found).__name__
                raise TypeError(f"{self.task.name}: work must yield reports, checkpoints and evaluations, not {kind}")
        return False

    def _report(self, found: Report) -> Report:
        metrics = {str(name): float(value) for name, value in found.metrics.items()}
        report = replace(found, metrics=metrics, checkpoint=self.safe)
        self.last, self.safe = max(self.last, found.step), None
        self.reports.append(report)
        return report

    def _save(self, step: int, state: Any) -> None:
        self.last = max(self.last, step)
        self.store.write(step, state, self.reports, self._seconds())
        self.safe = step

    def _evaluated(self, found: Evaluation) -> Iterator[Event]:
        if not self.scores:
            self.seconds, self.since = self._seconds(), 0.0
            yield Evaluating(self.last)
        scores = {**_numbers(found.scores), "decode": Schema.of(self.task).scoring(self.config)}
        self.scores[found.set_name] = scores
        yield Evaluated(self.last, found.set_name, scores, dict(found.artifacts))

    def _finished(self) -> Finished:
        costs = {"params": self.costs.params, "flops": self.costs.flops, "seconds": self._seconds()}
        return Finished(self.last, {**costs, "tokens_per_s": None}, self.scores)

    def _refuse_missing_scores(self) -> None:
        for metric in self.task.metrics:
            if metric.tabled and metric.name not in self.scores.get(metric.set, {}):
                name = self.task.name
                raise ValueError(f"{name}: work ended without {metric.name} of {metric.set}, which the table shows")

    def _seconds(self) -> float:
        """Training time over all attempts, without evaluation."""
        return self.seconds + (time.monotonic() - self.since if self.since else 0.0)


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in scores.items()}


def _device(world: int) -> str:
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available() and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    name = torch.cuda.get_device_name() if torch is not None and gpu else f"cpu ({platform.machine()})"
    return name if world == 1 else f"{name} × {world}"
