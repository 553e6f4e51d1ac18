"""Training metrics between two reports: loss, gradient, speed, waiting; and the check for divergence."""

import math
import time
from collections.abc import Sequence
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
BF16_PEAKS = {  # FLOP/s of dense bf16 matmuls, by the vendors' data sheets; the longest matching name counts
    "NVIDIA A100": 312e12,
    "NVIDIA H100": 989e12,
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H200": 989e12,
    "NVIDIA H200 NVL": 835e12,
    "NVIDIA B200": 2250e12,
}
SUSTAINED = {  # FLOP/s in single precision, by footnote 5 of the paper; later devices have no such figure
    "Tesla K80": 2.8e12,
    "Tesla K40": 3.7e12,
    "Tesla M40": 6.0e12,
    "Tesla P100": 9.5e12,
}
PART = "MIG"
"""In the name of a part of a device, whose rate is not that of the whole."""


class Step(NamedTuple):
    """Results of one update, on the device: this worker's part of the loss, in nats per target piece of the whole
    batch, and the L2 norm of the whole gradient."""

    loss: Tensor
    gradient_norm: Tensor


@dataclass
class Meter:
    """Sums over the steps since the last report, on this worker; losses stay on the device until they are read."""

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

        Raises DivergedError at a loss or gradient that is not finite: neither its step nor a later one is reported.
        """
        *losses, cells, waited = self.worker.all_reduce([*torch.stack(self.losses).tolist(), self.cells, self.waited])
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
        flops = training_flops(self.config.model, self.vocab_size, self.lengths) / self.seconds
        peak = rates(self.worker, self.config).get("peak")
        return {"train/flops_per_s": flops, **({"train/mfu": flops / peak} if peak else {})}

    def _check(self, last: int, losses: list[float], norms: list[float]) -> None:
        for step, (loss, norm) in enumerate(zip(losses, norms, strict=True), start=last - len(losses) + 1):
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise DivergedError(
                    f"loss {loss:.4g} and gradient norm {norm:.4g} at step {step}, learning rate "
                    f"{self._learning_rate(step):.3g}, {self.batches.describe(step)}",
                    step,
                )

    def _learning_rate(self, step: int) -> float:
        return learning_rate(self.config.train, self.config.model.d_model, step)


def rates(worker: Worker, config: TrialConfig) -> TrainingMetrics:
    """FLOP/s of all workers' devices, where they are known: ``peak`` at the precision used, and ``sustained``."""
    name = torch.cuda.get_device_name(worker.device) if worker.device.type == "cuda" else PART
    if PART in name:
        return {}
    tables = {"peak": BF16_PEAKS if config.train.precision == "bf16" else {}, "sustained": SUSTAINED}
    known = {rate: [of[start] for start in sorted(of) if name.startswith(start)] for rate, of in tables.items()}
    return {rate: of[-1] * worker.world for rate, of in known.items() if of}
