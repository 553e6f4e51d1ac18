"""Hours and memory of a plan: of each trial, in sum, and side by side on what the cluster has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

from sweeps.config.settings import Cluster
from sweeps.costs.measurement import Measurement, calibrated_trials, finished_trials
from sweeps.costs.prediction import Prediction, Work, predicted
from sweeps.costs.slots import ends, slots_of, this_machine
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.preflight.machine import memory
from sweeps.worker.pace import Group, conditions, machine, work_of
from tracking.provenance import own_version

MemorySource = Literal["measured", "computed"]
"""Measured is what the row itself, or without a formula another row, has shown."""


@dataclass(frozen=True)
class Memory:
    """Bytes of one worker while it trains: on a CPU, or of its GPU."""

    bytes: float
    source: MemorySource
    place: Literal["cpu", "cuda"] = "cpu"


@dataclass(frozen=True)
class Estimate:
    """By the names of the trials. ``slots`` is None where the nodes of a cluster were not asked."""

    plan: Plan
    times: Mapping[str, Prediction]
    memories: Mapping[str, Memory]
    slots: int | None
    here: bool  # whether trials run on this machine alone
    machine_bytes: int | None = None
    to_run: tuple[PlannedTrial, ...] = field(default=())

    @property
    def unknown(self) -> list[PlannedTrial]:
        """The trials to run whose time is unknown."""
        return [planned for planned in self.to_run if planned.trial.name not in self.times]

    @cached_property
    def seconds(self) -> float | None:
        """Of all trials to run, one after another; None if that of any is unknown."""
        if self.unknown or not self.to_run:
            return None
        return sum(self.times[planned.trial.name].seconds for planned in self.to_run)

    @cached_property
    def ends(self) -> dict[str, float]:
        """When each trial to run ends, in seconds from the start; {} if that is unknown."""
        if self.seconds is None or not self.slots:
            return {}
        durations = [self.times[planned.trial.name].seconds for planned in self.to_run]
        names = [planned.trial.name for planned in self.to_run]
        start = max(self.times[name].start_seconds for name in names)
        return dict(zip(names, ends(durations, self.slots, start), strict=True))

    @property
    def wall_seconds(self) -> float | None:
        """From the start of the first workers to the end of the last trial."""
        return max(self.ends.values(), default=None)

    @property
    def side_by_side(self) -> int:
        """How many trials run at a time."""
        return min(self.slots or 0, len(self.to_run))

    @property
    def worker_bytes(self) -> Memory | None:
        """Of the worker that needs most."""
        names = [planned.trial.name for planned in self.to_run]
        memories = [self.memories[name] for name in names if name in self.memories]
        return max(memories, key=lambda memory: memory.bytes, default=None)


def estimate_of(plan: Plan, nodes: Sequence[Mapping[str, float]] | None = None) -> Estimate:
    """From finished trials and earlier calibration: reads files, and starts nothing.

    ``nodes`` are the resources of a cluster's nodes, by kind; without them only this machine is known.
    """
    shared = plan.composition.shared
    cluster = shared.cluster
    here = shared.cluster.address is None
    running = {planned.trial.name for planned in plan.running}
    works = {planned.trial.name: work_to_predict(planned) for planned in plan.trials}
    measured = measurements(plan, works.values())
    predictions = {name: predicted(work, measured) for name, work in works.items()}
    times = {name: prediction for name, prediction in predictions.items() if prediction}
    scoring = {planned.trial.name for planned in plan.trials if planned.host}
    times |= {name: times[name].of_scoring() for name in scoring & times.keys()}
    if here:
        nodes = [this_machine()]
    slots = None if nodes is None else slots_of(cluster, nodes)
    to_run = tuple(planned for planned in plan.pending if planned.trial.name not in running)
    for planned in to_run[:slots]:
        if planned.trial.name in times:
            times[planned.trial.name] = times[planned.trial.name].as_first()
    memories = _memories(plan, works, measured)
    return Estimate(plan, times, memories, slots, here, memory() if here else None, to_run)


def work_to_predict(planned: PlannedTrial) -> Work:
    group = group_of(planned.settings.cluster)
    trained = planned.host or planned
    flops = trained.costs.flops
    return Work(
        work=work_of(trained.task, trained.config, trained.fingerprint),
        conditions=conditions(trained.task, trained.config, group),
        steps=planned.steps,
        flops_per_step=None if flops is None else flops / planned.steps,
    )


def group_of(cluster: Cluster) -> Group:
    return Group(cluster.workers, cluster.cpus_per_worker, cluster.gpus_per_worker)


def measurements(plan: Plan, works: Iterable[Work]) -> list[Measurement]:
    """What was measured under the conditions of these trials: finished trials first."""
    wanted = {work.conditions for work in works}
    shared = plan.composition.shared
    runs = Path(shared.paths.runs)
    if shared.cluster.address is not None:  # trials may have run on any of its nodes
        return finished_trials(runs, wanted, None)
    this_type = machine(shared.cluster.gpus_per_worker > 0)
    calibrated = calibrated_trials(runs, wanted, this_type, version_of(plan))
    return [*finished_trials(runs, wanted, this_type), *calibrated]


def version_of(plan: Plan) -> str:
    """Of allelse and of the task's code: what calibration has measured holds for these alone."""
    code = plan.code.digest if plan.code else ""
    return f"{own_version()} {code}".strip()


def _memories(plan: Plan, works: Mapping[str, Work], measured: Sequence[Measurement]) -> dict[str, Memory]:
    """Of each trial, from the first of these that is known.

    The peak of the same row; its few steps in calibration are a lower bound, so the formula counts if it says more.
    The formula, corrected by what was measured of other rows. Without one, the highest peak of other rows.
    """
    on_gpu = plan.composition.shared.cluster.gpus_per_worker > 0
    device = "cuda" if on_gpu else "cpu"
    formulas = {planned.trial.name: planned.task.memory(planned.config, device) for planned in plan.trials}
    computed = {name: size for name, size in formulas.items() if size is not None}
    if on_gpu:  # a process's own memory says nothing of its GPU's
        return {name: Memory(size, "computed", "cuda") for name, size in computed.items()}
    rows = {name: _of_row(work, measured, computed.get(name)) for name, work in works.items()}
    of_rows = {name: memory for name, memory in rows.items() if memory is not None}
    ratios = [memory.bytes / computed[name] for name, memory in of_rows.items() if name in computed]
    correction = fmean(ratios) if ratios else 1.0
    highest = {name: _highest(work, measured) for name, work in works.items()}
    memories = {name: Memory(peak, "measured") for name, peak in highest.items() if peak}
    memories |= {name: Memory(size * correction, "computed") for name, size in computed.items()}
    return memories | of_rows


def _of_row(work: Work, measured: Sequence[Measurement], formula: float | None) -> Memory | None:
    """What the same row has shown; None if it was not measured."""
    same = [one for one in measured if (one.work, one.conditions) == (work.work, work.conditions)]
    finished = _highest_of(one for one in same if one.source == "finished")
    calibrated = _highest_of(one for one in same if one.source == "calibrated")
    if finished:
        return Memory(finished, "measured")
    if formula is not None and formula > calibrated > 0:
        return Memory(formula, "computed")
    return Memory(calibrated, "measured") if calibrated else None


def _highest(work: Work, measured: Sequence[Measurement]) -> float:
    """Of any row under the same conditions."""
    return _highest_of(one for one in measured if one.conditions == work.conditions)


def _highest_of(measured: Iterable[Measurement]) -> float:
    return max((float(one.peak_bytes or 0) for one in measured), default=0.0)
