"""The hours and memory of a plan: for each trial, in total, and with several trials at a time."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Literal

from sweeps.command_task.command_task import begins_again
from sweeps.costs.measurement import Measurement, calibrated_trials, finished_trials
from sweeps.costs.prediction import Prediction, Work, predict
from sweeps.costs.slots import end_times, slots_of, this_machine
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.preflight.machine import memory
from sweeps.worker.pace import Group, conditions, machine, work_of
from tracking.files import unless_damaged
from tracking.json_lines.journal import Journal, newest_checkpoint
from tracking.provenance import own_version

MemorySource = Literal["measured", "computed"]
"""Measured: the peak of the same row, or of other rows if the task has no formula."""


@dataclass(frozen=True)
class Memory:
    """Bytes that one worker needs to train, in the machine's memory or its GPU's."""

    bytes: float
    source: MemorySource
    place: Literal["cpu", "cuda"] = "cpu"


@dataclass(frozen=True)
class Estimate:
    """Predicted times and memory by trial name.

    ``slots`` is how many trials run at a time; None if the nodes of a cluster are unknown. ``here``
    means that trials run only on this machine, whose memory is ``machine_bytes``.
    """

    plan: Plan
    times: Mapping[str, Prediction]
    memories: Mapping[str, Memory]
    slots: int | None
    here: bool
    machine_bytes: int | None = None
    to_run: tuple[PlannedTrial, ...] = field(default=())

    @property
    def unknown(self) -> list[PlannedTrial]:
        """The trials to run whose time is unknown."""
        return [planned for planned in self.to_run if planned.name not in self.times]

    @cached_property
    def seconds(self) -> float | None:
        """The total for all trials to run; None if the time of any is unknown."""
        if self.unknown or not self.to_run:
            return None
        return sum(self.times[planned.name].seconds for planned in self.to_run)

    @cached_property
    def ends(self) -> dict[str, float]:
        """When each trial to run ends, in seconds from the start; {} if that is unknown."""
        if self.seconds is None or not self.slots:
            return {}
        durations = [self.times[planned.name].seconds for planned in self.to_run]
        names = [planned.name for planned in self.to_run]
        start = max(self.times[name].start_seconds for name in names)
        ends = end_times(durations, self.slots, start)
        return dict(zip(names, ends, strict=True))

    @property
    def wall_seconds(self) -> float | None:
        """From the start of the first workers to the end of the last trial."""
        return max(self.ends.values(), default=None)

    @property
    def side_by_side(self) -> int:
        """How many of the trials to run will run at a time."""
        return min(self.slots or 0, len(self.to_run))

    @property
    def worker_bytes(self) -> Memory | None:
        """The memory of the worker that needs most; None if nothing is known."""
        names = [planned.name for planned in self.to_run]
        memories = [self.memories[name] for name in names if name in self.memories]
        return max(memories, key=lambda memory: memory.bytes, default=None)


def estimate_of(plan: Plan, nodes: Sequence[Mapping[str, float]] | None = None) -> Estimate:
    """The estimate from finished trials and earlier calibration. Reads files, and starts nothing.

    ``nodes`` holds each node's resources by kind: {"CPU": 2.0, "GPU": 0.0}. Omit it if a cluster's
    nodes are unknown.
    """
    cluster = plan.shared.cluster
    here = cluster.address is None
    if here:
        nodes = [this_machine()]
    slots = None if nodes is None else slots_of(cluster, nodes)
    running = {planned.name for planned in plan.running}
    to_run = tuple(planned for planned in plan.pending if planned.name not in running)
    works = {planned.name: work_to_predict(planned) for planned in plan.trials}
    measurements = comparable_measurements(plan, works.values())
    times = _times(plan, works, measurements)
    for planned in to_run[:slots]:
        name = planned.name
        if name in times:
            times[name] = times[name].as_first()
    return Estimate(
        plan,
        times=times,
        memories=_memories(plan, works, measurements),
        slots=slots,
        here=here,
        machine_bytes=memory() if here else None,
        to_run=to_run,
    )


def _times(
    plan: Plan,
    works: Mapping[str, Work],
    measurements: Sequence[Measurement],
) -> dict[str, Prediction]:
    """The predictions by trial name, without the trials whose time is unknown."""
    times: dict[str, Prediction] = {}
    for planned in plan.trials:
        name = planned.name
        prediction = predict(works[name], measurements)
        if prediction is None:
            continue
        only_scores = planned.host is not None or planned.scored_otherwise
        times[name] = prediction.of_scoring() if only_scores else _of_the_rest(prediction, planned)
    return times


def _of_the_rest(prediction: Prediction, planned: PlannedTrial) -> Prediction:
    """The prediction from the newest checkpoint on, if the trial has begun and not ended."""
    if planned.state not in ("interrupted", "failed") or begins_again(planned.task):
        return prediction
    journal = Journal(planned.folder.journal_path)
    step = unless_damaged(lambda: newest_checkpoint(journal), None)
    steps = planned.stated_steps
    if step is None or steps is None:
        return prediction
    return prediction.with_share(max(0.0, 1 - step / steps))


def work_to_predict(planned: PlannedTrial) -> Work:
    """The work of a trial. A trial that only scores has the work of the trial whose weights it
    scores."""
    cluster = planned.settings.cluster
    group = Group(cluster.workers, cluster.cpus_per_worker, cluster.gpus_per_worker)
    trained = planned.host or planned
    flops = trained.costs.flops
    return Work(
        work=work_of(trained.task, trained.config, trained.fingerprint),
        conditions=conditions(trained.task, trained.config, group),
        steps=trained.stated_steps,
        flops_per_step=None if flops is None else flops / planned.steps,
    )


def comparable_measurements(plan: Plan, works: Iterable[Work]) -> list[Measurement]:
    """The measurements under the conditions of these works, finished trials before calibrated
    ones."""
    conditions_to_predict = {work.conditions for work in works}
    shared = plan.shared
    runs = Path(shared.paths.runs)
    if shared.cluster.address is not None:  # trials may have run on any of its nodes
        return finished_trials(runs, conditions_to_predict, None)
    machine_type = machine(shared.cluster.gpus_per_worker > 0)
    finished = finished_trials(runs, conditions_to_predict, machine_type)
    version = version_of(plan)
    calibrated = calibrated_trials(runs, conditions_to_predict, machine_type, version)
    return [*finished, *calibrated]


def version_of(plan: Plan) -> str:
    """The version of allelse and the digest of the task's code. Calibrations are valid only for
    this version."""
    code = plan.code.digest if plan.code else ""
    return f"{own_version()} {code}".strip()


def _memories(
    plan: Plan,
    works: Mapping[str, Work],
    measurements: Sequence[Measurement],
) -> dict[str, Memory]:
    """Memory by trial name, from the first of these sources that is known:

    1. The peak of the same row. Calibration runs few steps, so the task's formula wins if it gives
       more.
    2. The formula, corrected by its mean error on measured rows.
    3. The highest peak of other rows.
    """
    on_gpu = plan.shared.cluster.gpus_per_worker > 0
    computed = _computed_bytes(plan, "cuda" if on_gpu else "cpu")
    if on_gpu:  # peaks are of a process's memory, not of its GPU's
        return {name: Memory(size, "computed", "cuda") for name, size in computed.items()}
    measured_rows = dict[str, Memory]()
    other_rows = dict[str, Memory]()
    for name, work in works.items():
        row_memory = _row_memory(work, measurements, computed.get(name))
        if row_memory is not None:
            measured_rows[name] = row_memory
        peak = _peak(run for run in measurements if run.conditions == work.conditions)
        if peak:
            other_rows[name] = Memory(peak, "measured")
    correction = _correction(measured_rows, computed)
    corrected = {name: Memory(size * correction, "computed") for name, size in computed.items()}
    return other_rows | corrected | measured_rows


def _computed_bytes(plan: Plan, device: Literal["cpu", "cuda"]) -> dict[str, float]:
    """The bytes by trial name that the task's formula gives, without the trials for which it gives
    none."""
    sizes = dict[str, float]()
    for planned in plan.trials:
        size = planned.task.memory(planned.config, device)
        if size is not None:
            sizes[planned.name] = size
    return sizes


def _correction(measured_rows: Mapping[str, Memory], computed: Mapping[str, float]) -> float:
    """The mean ratio of measured to computed bytes; 1 if no trial has both."""
    names = [name for name in measured_rows if name in computed]
    ratios = [measured_rows[name].bytes / computed[name] for name in names]
    return fmean(ratios) if ratios else 1.0


def _row_memory(
    work: Work,
    measurements: Sequence[Measurement],
    computed_bytes: float | None,
) -> Memory | None:
    """The memory of a measured row; None if the row was not measured."""
    row = [
        measurement
        for measurement in measurements
        if (measurement.work, measurement.conditions) == (work.work, work.conditions)
    ]
    finished = _peak(run for run in row if run.source == "finished")
    calibrated = _peak(run for run in row if run.source == "calibrated")
    if finished:
        return Memory(finished, "measured")
    if computed_bytes is not None and computed_bytes > calibrated > 0:
        return Memory(computed_bytes, "computed")
    return Memory(calibrated, "measured") if calibrated else None


def _peak(measurements: Iterable[Measurement]) -> float:
    """The highest peak of memory, in bytes; 0 if there is none."""
    return max((float(run.peak_bytes or 0) for run in measurements), default=0.0)
