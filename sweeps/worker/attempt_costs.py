"""What an attempt costs: the time of its training, its FLOPs, and what its device sustains."""

import time
from dataclasses import replace
from typing import Any

from sweeps.checkpoints.manifest import Manifest
from sweeps.processes.events import Assignment
from sweeps.task import Costs, Task
from sweeps.worker.calls import checked_costs
from sweeps.worker.device_rate import DeviceRate, measured_rate, typed_rate
from sweeps.worker.pace import CpuTime, Group, TrainingTime, pace_record, reset_peak_memory


class AttemptCosts:
    """The costs of one attempt, from its arrival in a worker.

    ``config`` is that of the planned training, also if it ended early. ``manifest`` is that of the
    checkpoint from which training resumes.
    """

    def __init__(
        self,
        task: Task[Any],
        config: Any,
        assignment: Assignment,
        world: int,
        manifest: Manifest | None,
        cpu: CpuTime,
    ) -> None:
        seconds = manifest.seconds if manifest else 0.0
        cpu_seconds = manifest.cpu_seconds if manifest else 0.0
        self.time = TrainingTime(seconds, cpu_seconds, cpu)
        self._task = task
        self._config = config
        self._planned = checked_costs(task.costs(config))
        self._counted: Costs | None = None  # by the work, once it has called `spent`
        self._assignment = assignment
        self._world = world
        self._trained_before = self.time.seconds
        self._arrival = time.monotonic()
        reset_peak_memory()

    def replace(self, costs: Costs) -> None:
        """Count these costs instead of those that the task computed. Raises WrongCallError."""
        self._counted = checked_costs(costs)

    def look_at_device(self, precision: str) -> DeviceRate | None:
        """The FLOP/s that the device sustains. The time for this does not count as training."""
        tflops = self._assignment.sustained_tflops
        with self.time.left_out():
            return measured_rate(precision) if tflops is None else typed_rate(tflops)

    def record(self, steps: int) -> dict[str, Any]:
        """What ``result.json`` keeps of a training that ended after so many steps."""
        costs = self._costs_of(steps)
        record: dict[str, Any] = {
            "params": costs.params,
            "flops": costs.flops if self._assignment.weights is None else 0.0,
            "seconds": self.time.seconds,
            "cpu_seconds": self.time.cpu_seconds,
        }
        # an attempt that only scores measures nothing of training
        if self.time.seconds > self._trained_before:
            record["pace"] = self._pace()
        return record

    def _costs_of(self, steps: int) -> Costs:
        """The costs that the work has counted, or else the planned ones up to this step."""
        if self._counted is not None:
            return self._counted
        planned_steps = self._task.steps(self._config)
        flops = self._planned.flops
        if flops is None or steps >= planned_steps:
            return self._planned
        return replace(self._planned, flops=flops * steps / planned_steps)

    def _pace(self) -> dict[str, Any]:
        """What plans predict from (`sweeps.costs`)."""
        assignment = self._assignment
        group = Group(self._world, assignment.threads, assignment.gpus)
        training_seconds = self.time.seconds - self._trained_before
        scoring_seconds = time.monotonic() - self._arrival - training_seconds
        return pace_record(
            self._task, self._config, assignment.data_fingerprint, group, scoring_seconds
        )
