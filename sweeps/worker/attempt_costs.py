"""What an attempt costs: the time of its training, and the FLOPs of its device."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sweeps.task import Costs, Task
from sweeps.worker.calls import checked_costs
from sweeps.worker.checkpoint_files import Manifest
from sweeps.worker.device_rate import DeviceRate, measured_rate, paper_costs, typed_rate
from sweeps.worker.events import Assignment
from sweeps.worker.pace import CpuTime, Group, Spent, TrainingTime, pace_record, reset_peak_memory


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
        self.rate: DeviceRate | None = None
        self._task = task
        self._config = config
        self._planned = checked_costs(task.costs(config))
        self._counted: Costs | None = None  # by the work, once it has called `spent`
        self._assignment = assignment
        self._world = world
        self._first_step = manifest.step if manifest else 0
        self._trained_before = self.time.seconds
        self._arrival = time.monotonic()
        self._cpu_at_arrival = time.process_time()
        reset_peak_memory()

    def replace(self, costs: Costs) -> None:
        """Count these costs instead of those that the task computed. Raises WrongCallError."""
        self._counted = checked_costs(costs)

    def look_at_device(self, precision: str) -> DeviceRate | None:
        """The FLOP/s that the device sustains. The time for this does not count as training."""
        tflops = self._assignment.sustained_tflops
        with self.time.left_out():
            self.rate = measured_rate(precision) if tflops is None else typed_rate(tflops)
        return self.rate

    def record(self, steps: int, about: Mapping[str, Any]) -> dict[str, Any]:
        """What ``result.json`` keeps of a training that ended after so many steps.

        ``about``: the task's entries about the trial.
        """
        costs = self._costs_of(steps)
        record: dict[str, Any] = {
            "params": costs.params,
            "flops": costs.flops if self._assignment.weights is None else 0.0,
            "seconds": self.time.seconds,
            "cpu_seconds": self.time.cpu_seconds,
        }
        # an attempt that only scores measures nothing of training
        if self.time.seconds > self._trained_before:
            record |= self._device_costs(costs.flops, about)
            record["pace"] = self._pace(steps - self._first_step)
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

    def _device_costs(self, flops: float | None, about: Mapping[str, Any]) -> dict[str, Any]:
        """Costs in the paper's way of counting, as far as they are known; {} for a part of a
        GPU."""
        gpus = self._assignment.gpus
        devices = self._world * max(1.0, gpus)
        rate = self.rate
        task_rate = about.get("flops_per_s", {}).get("sustained")
        if task_rate and self._assignment.sustained_tflops is None:
            rate = DeviceRate(task_rate / devices, "table")
        if rate is None or 0 < gpus < 1:
            return {}
        costs = paper_costs(rate.flops_per_s * devices, self.time.seconds, flops)
        return {**costs, "sustained": rate.to_dict()}

    def _pace(self, steps: int) -> dict[str, Any]:
        """What plans predict from (`sweeps.costs`). ``steps``: those of this attempt."""
        assignment = self._assignment
        group = Group(self._world, assignment.threads, assignment.gpus)
        training_seconds = self.time.seconds - self._trained_before
        scoring_seconds = time.monotonic() - self._arrival - training_seconds
        cpu_seconds = time.process_time() - self._cpu_at_arrival
        spent = Spent(steps, scoring_seconds, cpu_seconds)
        return pace_record(self._task, self._config, assignment.data_fingerprint, group, spent)
