"""How long a trial trains, how fast on its machine, and how much memory it takes: later plans
predict from it.

A plan compares only trials that ran under the same conditions. What the conditions leave out
changes the number of FLOPs or steps, and a plan knows both.
"""

import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from sweeps.command_task.command_task import CommandTask
from sweeps.config.schema import Schema
from sweeps.task import Task
from tracking.provenance import cpu_model

NVIDIA = Path("/proc/driver/nvidia/gpus")
MODEL = "Model:"
STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")
PEAK = "VmHWM:"
RESET_PEAK = "5"
CHILDREN_S = 1.0
"""Between two looks at the CPU time of running children."""


class CpuTime:
    """CPU seconds of a trial's workers, each since it began to work: of its process and all that it
    has started.

    The system counts a child with its parent once the child has ended. On Linux, children that run
    are asked for their time, about once a second. ``others`` are those of the other workers, as the
    last poll brought them: about a second old.
    """

    def __init__(self) -> None:
        self.others = 0.0
        self._looked = -math.inf
        self._most = 0.0  # with the children that ran at the last look
        self._before = _used() + _used_by_children()

    @property
    def own(self) -> float:
        ended = _used() - self._before
        if time.monotonic() - self._looked >= CHILDREN_S:
            self._looked = time.monotonic()
            self._most = max(self._most, ended + _used_by_children())
        return max(self._most, ended)

    @property
    def total(self) -> float:
        return self.own + self.others


def _used() -> float:
    """By this process, and by its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _used_by_children() -> float:
    """By all processes below this one that run, and by their children that have ended."""
    seconds = 0.0
    for child in _running_below(os.getpid()):
        with suppress(psutil.Error):
            times = psutil.Process(child).cpu_times()
            seconds += times.user + times.system + times.children_user + times.children_system
    return seconds


def _running_below(process: int) -> Iterator[int]:
    """The process IDs, by Linux's own lists; none on another system."""
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                yield child
                yield from _running_below(child)


class TrainingTime:
    """The seconds of training over all attempts, up to the last step, by the clock and by the
    workers' CPUs. Evaluations between steps count; what keeps their scores does not.

    Time after a pause counts as training again once training continues, as a report after an
    evaluation shows. ``cpu_before`` is None if earlier attempts have not counted it; then it stays
    unknown.
    """

    def __init__(self, seconds_before: float, cpu_before: float | None, cpu: CpuTime) -> None:
        self._before = seconds_before
        self._since = time.monotonic()
        self._cpu_before = cpu_before
        self._cpu_since = cpu.total
        self._cpu = cpu
        self._runs = False
        # an attempt that resumes may train no further step
        self._at_last_step = (seconds_before, cpu_before) if seconds_before else None

    @property
    def seconds(self) -> float:
        return self._before + (time.monotonic() - self._since if self._runs else 0.0)

    @property
    def cpu_seconds(self) -> float | None:
        if self._cpu_before is None:
            return None
        return self._cpu_before + (self._cpu.total - self._cpu_since if self._runs else 0.0)

    def go_on(self) -> None:
        self._runs = True

    def end_step(self) -> None:
        """Training went on until now, perhaps after an evaluation, and has ended a new step."""
        self.go_on()
        self._at_last_step = (self.seconds, self.cpu_seconds)

    def end_at_last_step(self) -> None:
        """Training has ended with the last step that is known: what followed was evaluation."""
        if self._at_last_step is not None:
            self._before, self._cpu_before = self._at_last_step
            self._runs = False

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """The time spent within does not count as training."""
        began = time.monotonic()
        cpu_began = self._cpu.own
        yield
        self._since += time.monotonic() - began
        self._cpu_since += self._cpu.own - cpu_began

    def pause(self) -> None:
        """Count no more until training goes on. The time that then counts begins now, or at a later
        ``leave_out_pause``."""
        self._before = self.seconds
        self._cpu_before = self.cpu_seconds
        self._runs = False
        self.leave_out_pause()

    def leave_out_pause(self) -> None:
        """The time since ``pause`` does not count, even if training goes on from now."""
        self._since = time.monotonic()
        self._cpu_since = self._cpu.total


@dataclass(frozen=True)
class Group:
    """The worker group of a trial: how many workers, and the CPUs and GPUs of each."""

    workers: int
    cpus: int
    gpus: float


def conditions(task: Task[Any], config: Any, group: Group) -> str:
    """A digest of what changes a trial's speed although it changes neither its FLOPs nor its steps.

    This is the worker group, the precision, the keys that only observe or score, and what the task
    says of its pace.
    """
    schema = Schema.of(task)
    observed = schema.scores | schema.observes
    values = {key: value for key, value in schema.values(config).items() if key in observed}
    changed = {key: value for key, value in values.items() if value != schema.neutral.get(key, ...)}
    resources = [group.workers, group.cpus, float(group.gpus)]
    parts = [task.name, task.version, task.precision(config), resources, changed]
    pace = task.pace(config)
    if pace:
        parts.append(pace)
    return _digest(parts)


def work_of(task: Task[Any], config: Any, fingerprint: str) -> str:
    """A digest that all seeds of a row share: the trial key without its seed."""
    return Schema.of(task).trial_key(config, 0, fingerprint)


@cache
def machine(with_gpus: bool) -> str:
    """This machine's type, such as "AMD EPYC × 2", with its GPUs if a trial uses them. Imports no
    torch."""
    gpus = gpu_models() if with_gpus else []
    return ", ".join([f"{cpu_model()} × {os.cpu_count()}", *gpus])


def gpu_models() -> list[str]:
    """The models of this machine's NVIDIA GPUs, as the driver names them; [] without a driver."""
    models = list[str]()
    for path in sorted(NVIDIA.glob("*/information")):
        lines = path.read_text().splitlines()
        models += [line.removeprefix(MODEL).strip() for line in lines if line.startswith(MODEL)]
    return models


def reset_peak_memory() -> None:
    """Reset this process's memory peak, where Linux allows it: a worker runs one trial after
    another."""
    with suppress(OSError):
        CLEAR.write_text(RESET_PEAK)


def peak_memory() -> int:
    """The most bytes of memory that this process has held since the last reset."""
    with suppress(OSError, ValueError):
        for line in STATUS.read_text().splitlines():
            if line.startswith(PEAK):
                return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory_of(task: Task[Any]) -> int | None:
    """The same for work of the task; None for a command, whose memory is that of other
    processes."""
    return None if isinstance(task, CommandTask) else peak_memory()


def _digest(values: Any) -> str:
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def pace_record(
    task: Task[Any], config: Any, fingerprint: str, group: Group, scoring_seconds: float
) -> dict[str, Any]:
    """What plans predict other trials from, as result.json keeps it.

    ``scoring_seconds``: of the last attempt, all but its training.
    """
    planned = task.costs(config).flops
    return {
        "conditions": conditions(task, config, group),
        "work": work_of(task, config, fingerprint),
        "machine": machine(group.gpus > 0),
        "flops_per_step": None if planned is None else planned / task.steps(config),
        "scoring_seconds": scoring_seconds,
        "peak_bytes": peak_memory_of(task),
    }
