"""Training metrics between two reports, and the check for divergence."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from sweeps.task import DivergedError
from transformer.config import TrialConfig
from transformer.cost import Lengths, training_flops
from transformer.data.batches import Batch, TrainingBatches
from transformer.training.state import learning_rate
from transformer.training.worker_group import Worker

TrainingMetrics = dict[str, float]
BF16_PEAKS = {
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H200": 989e12,
    "NVIDIA H200 NVL": 835e12,
    "NVIDIA B200": 2250e12,
}
"""FLOP/s of dense bf16 matmuls, from the vendors' data sheets; the longest matching name counts."""
SUSTAINED = {
    "Tesla K80": 2.8e12,
    "Tesla K40": 3.7e12,
    "Tesla M40": 6.0e12,
    "Tesla P100": 9.5e12,
}
"""FLOP/s in single precision, from footnote 5 of the paper; later devices have no such figure."""
PART = "MIG"
"""Stands in the name of a part of a device, whose rate is lower than the whole device's."""


class Step(NamedTuple):
    """Results of one update, on the device.

    ``loss`` [] is this worker's part of the loss, in nats per target piece of the whole batch.
    ``gradient_norm`` [] is the L2 norm of the whole gradient.
    """

    loss: Tensor
    gradient_norm: Tensor


@dataclass
class Meter:
    """Sums over the steps since the last report, on this worker.

    Losses stay on the device until you read them.
    """

    config: TrialConfig
    vocab_size: int
    batches: TrainingBatches
    worker: Worker
    losses: list[Tensor] = field(default_factory=list)
    gradient_norms: list[Tensor] = field(default_factory=list)
    lengths: Lengths = field(default_factory=Lengths)
    cells: int = 0  # target pieces and padding in this worker's micro-batches
    waited: float = 0.0  # seconds
    seconds: float = 0.0
    began: float = field(default_factory=time.perf_counter)

    def fresh(self) -> "Meter":
        """An empty meter for the next steps."""
        return Meter(self.config, self.vocab_size, self.batches, self.worker)

    def add(self, step: Step, micro_batches: Sequence[Batch], waited: float) -> None:
        """Add one step: its results, its micro-batches, and the seconds it waited for them."""
        self.losses.append(step.loss)
        self.gradient_norms.append(step.gradient_norm)
        self.lengths += micro_batches[0].lengths
        self.cells += sum(batch.target.numel() for batch in micro_batches)
        self.waited += waited

    def read(self, step: int) -> TrainingMetrics:
        """Means over the steps up to ``step``, over all workers. Waits for the device.

        Raises DivergedError if a loss or gradient is not finite. Its step and later ones are not
        reported.
        """
        losses_here = torch.stack(self.losses).tolist()
        *losses, cells, waited = self.worker.all_reduce([*losses_here, self.cells, self.waited])
        norms = torch.stack(self.gradient_norms).tolist()
        self.seconds = time.perf_counter() - self.began
        self._check(step, losses, norms)
        return {
            "train/loss": sum(losses) / len(losses),
            "train/gradient_norm": sum(norms) / len(norms),
            "train/learning_rate": self._learning_rate(step),
            "train/tokens_per_s": self.lengths.target / self.seconds,
            "train/padded_tokens_per_s": cells / self.seconds,
            "train/data_wait": waited / self.worker.world / self.seconds,
            **self._flops(),
        }

    def _flops(self) -> TrainingMetrics:
        """Model FLOP/s and, if the devices' peak is known, MFU."""
        flops = training_flops(self.config.model, self.vocab_size, self.lengths)
        metrics = {"train/flops_per_s": flops / self.seconds}
        peak = rates(self.worker, self.config).get("peak")
        if peak:
            metrics["train/mfu"] = metrics["train/flops_per_s"] / peak
        return metrics

    def _check(self, last: int, losses: list[float], norms: list[float]) -> None:
        """Raises DivergedError at the first step, up to step ``last``, that is not finite."""
        first = last - len(losses) + 1
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=first):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergedError(
                    f"loss {loss:.4g} and gradient norm {norm:.4g} at step {step}, learning rate "
                    f"{self._learning_rate(step):.3g}, {self.batches.describe(step)}",
                    step,
                )

    def _learning_rate(self, step: int) -> float:
        return learning_rate(self.config.train, self.config.model.d_model, step)


def rates(worker: Worker, config: TrialConfig) -> TrainingMetrics:
    """FLOP/s of all workers' devices: ``peak`` at the trial's precision, and ``sustained``.

    A rate that no table lists is left out.
    """
    if worker.device.type != "cuda":
        return {}
    name = torch.cuda.get_device_name(worker.device)
    if PART in name:
        return {}
    peaks = BF16_PEAKS if config.train.precision == "bf16" else {}
    device_rates = {"peak": _rate(peaks, name), "sustained": _rate(SUSTAINED, name)}
    return {kind: rate * worker.world for kind, rate in device_rates.items() if rate is not None}


def _rate(table: Mapping[str, float], name: str) -> float | None:
    """The rate of the longest name in ``table`` that the device's name starts with."""
    matches = [prefix for prefix in table if name.startswith(prefix)]
    return table[max(matches, key=len)] if matches else None
