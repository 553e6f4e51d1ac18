"""One attempt at a trial, as one worker runs it: find the start, then let the task work. What it says becomes events.

Rank zero names the checkpoint that all start from; the others read that one, and no other.
"""

import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task
from sweeps.processes.storage import alive
from sweeps.processes.times import SAMPLED_EVERY_S
from sweeps.task import NO_TEXTS, Costs, DivergedError, Numbers, Saved, Task, Texts
from sweeps.worker.calls import (
    WrongCallError,
    checked_artifacts,
    checked_costs,
    finite,
    name,
    next_step,
    numbers,
    plain,
    printable,
    samples_text,
)
from sweeps.worker.checkpoint_files import Manifest
from sweeps.worker.checkpoints import Checkpoints, OwnFormat, Start
from sweeps.worker.events import (
    About,
    Assignment,
    Evaluated,
    Evaluating,
    Event,
    Finished,
    Imported,
    Metrics,
    Noticed,
    Report,
    Resumed,
    Started,
    Stopped,
)
from sweeps.worker.peers import StopVote, barrier, process_group, use_interface_to
from sweeps.worker.prepared import prepared_folder
from tracking.provenance import of_process, versions

Stop = Callable[[], bool]
SYNCED_EVERY = 100
"""After how many reports the journal must be on disk: a checkpoint holds the ones since."""


class Driver:
    """One worker of one attempt. To make one imports the task, which may take seconds."""

    def __init__(self, assignment: Assignment, tell: Callable[[Event], None]) -> None:
        self.assignment, self.tell = assignment, tell
        self.task: Task[Any] = load_task(assignment.task, Path(assignment.folder))
        self.config = Schema.of(self.task).config(assignment.config)
        own = OwnFormat(self.task.save, self.task.load) if self.task.save and self.task.load else None
        place, keep = (assignment.checkpoints, assignment.key, assignment.attempt), self.task.keep(self.config)
        self.store = Checkpoints(*place, keep, own, lambda line: tell(Noticed(line)))
        self._found: tuple[Start, Manifest, Saved] | None = None
        self._attempt: Attempt | None = None

    def newest(self) -> Start | None:
        """Own the trial's checkpoints, and read the newest whole one: on rank zero. Raises StorageError."""
        self.store.claim(self.assignment.run)
        self._found = self.store.newest()
        return self._found and self._found[0]

    def load(self, start: Start | None) -> None:
        """Read the checkpoint that rank zero has named: on the other workers."""
        self._found = None if start is None else (start, *self.store.at(start))

    def work(self, rank: int, world: int, address: str, stop: Stop) -> None:
        """Call the task's work; its events are told. Raises what the work raises."""
        if world > 1:
            use_interface_to(address)
        given, group = self.assignment, (rank, world, address)
        place, identity = Path(given.data_folder), given.prepared_as
        data = prepared_folder(self.task, [self.config], place, given.data_fingerprint, identity)
        self._attempt = Attempt(self.task, given, self.store, group, self._found, self.tell, stop, data)
        self._found = None
        try:
            self.task.work(self._attempt)
            self._attempt.end()
        except DivergedError as error:
            self._attempt.end_diverged(error)
        finally:
            self.store.close()

    def recorded(self, step: int) -> None:
        """The sweep has written the reports up to this step."""
        if self._attempt is not None:
            self._attempt.recorded(step)


class Attempt:
    """One worker's attempt. ``tell`` takes the events of rank zero, and notices of the others."""

    def __init__(
        self,
        task: Task[Any],
        given: Assignment,
        store: Checkpoints,
        group: tuple[int, int, str],
        start: tuple[Start, Manifest, Saved] | None,
        tell: Callable[[Event], None],
        stop: Stop,
        data: Path,
    ) -> None:
        self.task, self.given, self.store, self.tell, self.stop = task, given, store, tell, stop
        self.config: Any = Schema.of(task).config(given.config)
        self.rank, self.world, self.address = group
        self.seed, self.threads, self.data = given.seed, given.threads, data
        self._start = start[0] if start else None
        self._restored = start[1] if start else None
        self.saved = start[2] if start else None
        self.steps = task.steps(self.config)
        resumed_at_end = self.saved is not None and self.saved.step >= self.steps
        self._trained_in = self._start.place.attempt if self._start and resumed_at_end else given.attempt
        same = {on: head for on, head in given.evaluated.items() if head.get("attempt") == self._trained_in}
        self.scored: Mapping[str, Numbers] = {on: head["scores"] for on, head in same.items() if resumed_at_end}
        self._scores: dict[str, dict[str, Any]] = {}
        self._costs = checked_costs(task.costs(self.config))
        self._reported, self._saved_step = (self.saved.step, self.saved.step) if self.saved else (0, 0)
        self._reports = list(self._restored.reports) if self._restored else []  # the journal may lack them
        self._held: Report | None = None  # the last report
        self._unsynced = 0
        self._recorded = 0
        self._system = SystemMetrics()
        self._not_finite: set[str] = set()
        self._vote = StopVote()
        self._asked_to_stop = False
        self._began = False
        self._evaluates = False
        self._seconds = self._restored.seconds if self._restored else 0.0
        self._since = 0.0 if resumed_at_end else time.monotonic()

    @property
    def folder(self) -> Path:
        """Beside the checkpoints; for those of a URL in this machine's temporary folder."""
        home = Path(self.store.root) if self.store.is_local else Path(tempfile.gettempdir()) / self.given.key
        (home / "files").mkdir(parents=True, exist_ok=True)
        return home / "files"

    def report(self, step: int, metrics: Numbers) -> None:
        self._heard()
        if self.rank:
            return
        step = next_step(step, self._reported, "report")
        found = numbers(metrics, f"the report of step {step}")
        self._tell_not_finite(step, found)
        self._train_until(step)
        self._reported = step
        self._held = Report(step, self._system.with_metrics(finite(found)))
        if not self._asked_to_stop and step < self.steps:
            self._release()

    def checkpoint(self, step: int, state: Any, score: float | None = None) -> None:
        self._heard(release=False)
        if self.rank:
            return
        step = next_step(step, self._saved_step, "checkpoint")
        self._train_until(step)
        self._forget_reports()
        reports = [*self._reports, *([self._held] if self._held else [])]
        self.store.save(step, state, self._trained_for(), score, [each for each in reports if each.step <= step])
        self._saved_step = step

    def evaluated(self, on: str, scores: Numbers, texts: Texts = NO_TEXTS, samples: Iterable[Numbers] = ()) -> None:
        self._heard()
        if self.rank:
            return
        self._tell_evaluating()
        on, signatures = name(on, "an evaluated set"), [each.signature for each in self.task.metrics if each.signature]
        measured = numbers(scores, f"the evaluation of {on}", signatures)
        self._scores[on] = kept = {**measured, "decode": Schema.of(self.task).scoring(self.config)}
        head = {"key": self.given.key, "step": self._last, "attempt": self._trained_in, "scores": kept}
        written = checked_artifacts(texts) | samples_text(on, head, samples)
        self.tell(Imported(versions()))
        self.tell(Evaluated(self._last, on, kept, written))

    def notice(self, text: str) -> None:
        self._heard()
        if not self.rank:
            self.tell(Noticed(printable(str(text))))

    def about(self, entries: Mapping[str, Any]) -> None:
        self._heard()
        if not self.rank:
            self.tell(About(plain(entries, "the entries about a trial")))

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

    def recorded(self, step: int) -> None:
        """The sweep has written the reports up to this step. Another thread may say so."""
        self._recorded = step

    def end(self) -> None:
        """The work has returned: tell how the attempt ended. Raises WrongCallError if scores are missing."""
        self._heard()
        if self.rank:
            return
        self.store.settle()
        self.tell(Imported(versions()))  # a library may be imported only where it is used
        short = 0 < self._last < self.steps
        scores = {**self.scored, **self._scores}
        missing = [each for each in self.task.metrics if each.tabled and each.name not in scores.get(each.set, {})]
        if self._asked_to_stop and (short or missing):
            self.tell(Stopped(self._saved_step))
            return
        if missing:
            raise WrongCallError(f"work ended without {missing[0].name} of {missing[0].set}, which the table shows")
        self.store.tidy()
        planned = self.steps if short and not self.task.early_stop else None
        diverged = self._last if self._has_diverged(scores) else None
        self.tell(Finished(self._last, self._spent(), {on: dict(of) for on, of in scores.items()}, planned, diverged))

    def end_diverged(self, error: DivergedError) -> None:
        """The work has found that training diverged: the trial ends so, with the scores that it has."""
        if self.rank:
            return
        self.store.settle()
        self.tell(Noticed(printable(f"diverged at step {error.step}: {error.why}")))
        scores = {on: dict(of) for on, of in {**self.scored, **self._scores}.items()}
        self.tell(Finished(self._last, self._spent(), scores, None, error.step))

    def _has_diverged(self, scores: Mapping[str, Mapping[str, Any]]) -> bool:
        flat = {f"{on}/{name}": of for on, each in scores.items() for name, of in each.items()}
        tabled = [flat.get(f"{metric.set}/{metric.name}") for metric in self.task.metrics if metric.tabled]
        lost = any(value is None or not math.isfinite(value) for value in tabled)
        return lost or self.task.diverged(self.config, flat)

    def _spent(self) -> dict[str, Any]:
        return {"params": self._costs.params, "flops": self._costs.flops, "seconds": self._trained_for()}

    @property
    def _last(self) -> int:
        """The last step that was reported or saved."""
        return max(self._reported, self._saved_step)

    def _heard(self, release: bool = True) -> None:
        """The trial lives. The first call also tells what the attempt starts from: by now the task has its device."""
        alive()
        if not self._began:
            self._began = True
            self._tell_start()
        self.store.pass_on()
        if release and self._held is not None:
            self.store.settle()
            self._release()
            if self._last >= self.steps:
                self._tell_evaluating()

    def _release(self) -> None:
        """Tell the report. The last one waits for the last checkpoint, and tells of it."""
        assert self._held is not None
        written = self.store.written()
        self._unsynced = 0 if written is not None else (self._unsynced + 1) % SYNCED_EVERY
        report = replace(self._held, checkpoint=written, synced=self._unsynced == 0)
        self._reports.append(report)
        self._held = None
        self.tell(report)

    def _tell_start(self) -> None:
        if self.rank:
            return
        self.tell(Started(_device(self.world), self.world, process=of_process()))
        if self._start is not None and self._restored is not None:
            self.tell(Resumed(self._restored.step, self._restored.reports, self._start.place.attempt))

    def _forget_reports(self) -> None:
        """Those that the journal has on disk need not be in a checkpoint."""
        known = [place for place, each in enumerate(self._reports) if each.synced and each.step <= self._recorded]
        del self._reports[: known[-1] + 1 if known else 0]

    def _tell_not_finite(self, step: int, metrics: Mapping[str, float]) -> None:
        for each in sorted(metrics.keys() - finite(metrics).keys() - self._not_finite):
            self._not_finite.add(each)
            self.tell(Noticed(f"{each} is {metrics[each]} at step {step}; the journal omits non-finite values"))

    def _train_until(self, step: int) -> None:
        """Training goes on, perhaps after an evaluation, or ends with this step."""
        if step < self.steps:
            self._since = self._since or time.monotonic()
        else:
            self._seconds, self._since = self._trained_for(), 0.0

    def _tell_evaluating(self) -> None:
        if not self._evaluates:
            self._evaluates = True
            self._seconds, self._since = self._trained_for(), 0.0
            self.tell(Evaluating(self._last))

    def _trained_for(self) -> float:
        """Seconds of training over all attempts, without evaluation."""
        return self._seconds + (time.monotonic() - self._since if self._since else 0.0)


def _device(world: int) -> str:
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available() and os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    found = torch.cuda.get_device_name() if torch is not None and gpu else f"cpu ({platform.machine()})"
    return found if world == 1 else f"{found} × {world}"


class SystemMetrics:
    """CPU, memory and GPU, by MLflow's names of system metrics. At most every ``SAMPLED_EVERY_S`` a report has them."""

    def __init__(self) -> None:
        self._due = -math.inf
        _cpu()  # the load is measured from here to the first report

    def with_metrics(self, metrics: Metrics) -> Metrics:
        """A metric that the task reports by the same name stays the task's."""
        if time.monotonic() < self._due:
            return metrics
        self._due = time.monotonic() + SAMPLED_EVERY_S
        return {f"system/{name}": round(value, 1) for name, value in (_cpu() | _gpu()).items()} | metrics


def _cpu() -> Metrics:
    try:
        load, memory = psutil.cpu_percent(), psutil.virtual_memory()
    except (OSError, psutil.Error):  # a container without /proc
        return {}
    return {"cpu_utilization_percentage": load, **_memory("system", memory.used, memory.total)}


def _gpu() -> Metrics:
    """Of the GPU that torch uses here; {} if this process uses none."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    device = torch.cuda.current_device()
    free, total = torch.cuda.mem_get_info(device)
    found = _memory(f"gpu_{device}", total - free, total)
    try:
        return found | {f"gpu_{device}_utilization_percentage": float(torch.cuda.utilization(device))}
    except Exception:  # without nvidia-ml-py, or on a part of a GPU: torch raises many types of errors
        return found


def _memory(name: str, used: int, total: int) -> Metrics:
    return {f"{name}_memory_usage_megabytes": used / 1e6, f"{name}_memory_usage_percentage": 100 * used / total}
