"""Hours and memory of a plan: of each trial, in sum, and side by side on what the cluster has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
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
        known = [self.memories[each.trial.name] for each in self.to_run if each.trial.name in self.memories]
        return max(known, key=lambda memory: memory.bytes, default=None)


def estimate_of(plan: Plan, nodes: Sequence[Mapping[str, float]] | None = None) -> Estimate:
    """From finished trials and earlier calibration: reads files, and starts nothing.

    ``nodes`` are the resources of a cluster's nodes, by kind; without them only this machine is known.
    """
    shared = plan.composition.shared
    cluster, here = shared.cluster, shared.cluster.address is None
    running = {planned.trial.name for planned in plan.running}
    works = {planned.trial.name: work_to_predict(planned) for planned in plan.trials}
    measured = measurements(plan, works.values())
    times = {name: found for name, work in works.items() if (found := predicted(work, measured))}
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
    flops = planned.costs.flops
    return Work(
        work=work_of(planned.task, planned.config, planned.fingerprint),
        conditions=conditions(planned.task, planned.config, group),
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
    own = machine(shared.cluster.gpus_per_worker > 0)
    calibrated = calibrated_trials(runs, wanted, own, version_of(plan))
    return [*finished_trials(runs, wanted, own), *calibrated]


def version_of(plan: Plan) -> str:
    """Of allelse and of the task's code: what calibration has measured holds for these alone."""
    code = plan.code.digest if plan.code else ""
    return f"{own_version()} {code}".strip()


def _memories(plan: Plan, works: Mapping[str, Work], measured: Sequence[Measurement]) -> dict[str, Memory]:
    """Measured, where the row was measured. Elsewhere the task's formula, corrected by what was measured of others."""
    peaks: dict[tuple[str, str], int] = {}
    for one in measured:
        if one.peak_bytes is not None:
            row = (one.work, one.conditions)
            peaks[row] = max(peaks.get(row, 0), one.peak_bytes)
    known: dict[str, Memory] = {}
    computed: dict[str, float] = {}
    on_gpu = plan.composition.shared.cluster.gpus_per_worker > 0
    for planned in plan.trials:
        name, work = planned.trial.name, works[planned.trial.name]
        formula = planned.task.memory(planned.config, "cuda" if on_gpu else "cpu")
        if formula is not None:
            computed[name] = formula
        if not on_gpu and (work.work, work.conditions) in peaks:
            known[name] = Memory(peaks[work.work, work.conditions], "measured")
    return {**_computed(computed, known, on_gpu), **_highest(works, peaks, computed, on_gpu), **known}


def _computed(computed: Mapping[str, float], known: Mapping[str, Memory], on_gpu: bool) -> dict[str, Memory]:
    ratios = [memory.bytes / computed[name] for name, memory in known.items() if name in computed]
    correction = sum(ratios) / len(ratios) if ratios else 1.0
    place: Literal["cpu", "cuda"] = "cuda" if on_gpu else "cpu"
    return {name: Memory(size * correction, "computed", place) for name, size in computed.items()}


def _highest(
    works: Mapping[str, Work], peaks: Mapping[tuple[str, str], int], computed: Mapping[str, float], on_gpu: bool
) -> dict[str, Memory]:
    """Without a formula: the highest peak of other rows under the same conditions."""
    highest: dict[str, int] = {}
    for (_, condition), peak in peaks.items():
        highest[condition] = max(highest.get(condition, 0), peak)
    return {
        name: Memory(highest[work.conditions], "measured")
        for name, work in works.items()
        if not on_gpu and name not in computed and work.conditions in highest
    }
