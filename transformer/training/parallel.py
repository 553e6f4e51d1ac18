"""The workers of one trial: one process each, joined by torch.distributed."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Worker:
    """This process's place in its gang; a gang of one needs no process group."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    tokens_per_pass: int = 25_000  # what goes through the model at once: sentences × longest side

    @property
    def leads(self) -> bool:
        """Whether this worker speaks for the gang: reports, and writes checkpoints."""
        return self.rank == 0

    @property
    def captures(self) -> bool:
        """Whether this worker replays CUDA graphs; sums over workers are not recorded."""
        return self.device.type == "cuda" and self.world == 1

    def sum_gradients(self, model: nn.Module) -> None:
        """Each gradient becomes its sum over all workers, in one reduction."""
        if self.world == 1:
            return
        parameters = list(model.parameters())
        for parameter in parameters:
            if parameter.grad is None:  # this worker's share of the batch was empty
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for gradient, total in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(total.view_as(gradient))

    def sum(self, values: Iterable[float | Tensor]) -> list[float]:
        """Numbers added up over all workers, in float64."""
        total = torch.tensor([float(value) for value in values], dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(total)
        summed: list[float] = total.tolist()
        return summed

    def gather(self, items: Any) -> list[Any]:
        """What every worker holds, in the order of their ranks."""
        if self.world == 1:
            return [items]
        gathered: list[Any] = [None] * self.world
        dist.all_gather_object(gathered, items)
        return gathered

    def wait(self) -> None:
        """Until every worker has come this far."""
        if self.world > 1:
            dist.barrier()


def pick_device() -> torch.device:
    """The GPU this process was given, or the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def describe_device(worker: Worker) -> str:
    """Such as "NVIDIA H200 × 8" or "cpu"."""
    name = torch.cuda.get_device_name(worker.device) if worker.device.type == "cuda" else "cpu"
    return name if worker.world == 1 else f"{name} × {worker.world}"


@contextmanager
def join(rank: int, world: int, address: str, threads: int, tokens_per_pass: int) -> Iterator[Worker]:
    """Be worker ``rank`` of ``world``, meeting the others at ``address`` (host:port of rank 0)."""
    torch.set_num_threads(threads)
    device = pick_device()
    if world == 1:
        yield Worker(device=device, tokens_per_pass=tokens_per_pass)
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, f"tcp://{address}", timeout=timedelta(minutes=10), rank=rank, world_size=world)
    try:
        yield Worker(rank, world, device, tokens_per_pass)
    finally:
        dist.destroy_process_group()
