"""The worker group of one trial: one process per worker, joined by torch.distributed."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from sweeps.processes.alive import alive
from sweeps.processes.rendezvous import WAITING, form_group

BUCKET_BYTES = 25 * 2**20
"""Large enough for the network, small enough that the first all-reduces start early in the backward pass."""


class StopRequested(Exception):  # noqa: N818 — not an error
    """This worker got a stop request during evaluation."""


def never() -> bool:
    """The default: no stop request, ever."""
    return False


@dataclass(frozen=True)
class Worker:
    """One process of a worker group; a single worker needs no process group. ``stop`` returns whether to stop."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    tokens_per_micro_batch: int = 25_000  # limit of a micro-batch: sentences × longest side
    stop: Callable[[], bool] = never

    @property
    def is_rank_zero(self) -> bool:
        """Whether this worker reports for the worker group, and writes checkpoints."""
        return self.rank == 0

    @property
    def uses_cuda_graphs(self) -> bool:
        """Whether this worker replays CUDA graphs; all-reduces are not recorded, so only a single worker does."""
        return self.device.type == "cuda" and self.world == 1

    @contextmanager
    def summing_gradients(self, model: nn.Module) -> Iterator[None]:
        """A context for the last backward pass of a step, empty if this worker has none. At its end each gradient is
        summed over all workers. The all-reduces overlap with the backward pass."""
        if self.world == 1:
            yield
            return
        sums = GradientSums(list(model.parameters()))
        hooks = [parameter.register_post_accumulate_grad_hook(sums.add) for parameter in model.parameters()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        sums.finish()

    def all_reduce(self, values: Iterable[float | Tensor]) -> list[float]:
        """Numbers summed over all workers, in float64."""
        total = torch.tensor([float(value) for value in values], dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(total)
        summed: list[float] = total.tolist()
        return summed

    def gather(self, items: Any) -> list[Any]:
        """The items of all workers, in the order of their ranks."""
        if self.world == 1:
            return [items]
        gathered: list[Any] = [None] * self.world
        dist.all_gather_object(gathered, items)
        return gathered

    def raise_if_stopped(self) -> None:
        """For work that is repeated after a resume and that no worker needs to finish."""
        alive()
        if self.stop():
            raise StopRequested


class StopVote:
    """A vote at every step on stop requests: all workers must leave training after the same step.

    With several workers, the votes of a step are counted after the next one, so that no step waits for them.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        several_gpus = worker.world > 1 and worker.device.type == "cuda"
        # votes on a GPU would wait for its queue
        self.group = dist.new_group(backend="gloo", timeout=WAITING) if several_gpus else None
        self.cast: tuple[Tensor, dist.Work] | None = None

    def agreed(self) -> bool:
        """Whether training ends after this step. Every worker must call it once per step."""
        alive()
        if self.worker.world == 1:
            return self.worker.stop()
        before, votes = self.cast, torch.tensor(float(self.worker.stop()))
        self.cast = votes, cast(dist.Work, dist.all_reduce(votes, group=self.group, async_op=True))
        if before is None:
            return False
        before[1].wait()
        return bool(before[0])


class GradientSums:
    """All-reduces gradients in buckets, from the last parameter to the first, in the order of the backward pass.

    A bucket's all-reduce starts once its gradients are complete and the earlier all-reduces have started. All workers
    must start them in the same order, including a worker without gradients.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.buckets = in_buckets(parameters[::-1])
        self.missing = set(parameters)
        self.begun: list[tuple[Tensor, dist.Work]] = []

    def add(self, parameter: Tensor) -> None:
        """This worker's gradient of ``parameter`` is complete."""
        self.missing.discard(cast(nn.Parameter, parameter))
        self._begin()

    def finish(self) -> None:
        """Reduce the rest. Gradients that were not added count as they are, and as 0 if missing."""
        self.missing.clear()
        self._begin()
        for bucket, (flat, work) in zip(self.buckets, self.begun, strict=True):
            work.wait()
            for parameter, total in zip(bucket, flat.split([p.numel() for p in bucket]), strict=True):
                parameter.grad = total.view_as(parameter)

    def _begin(self) -> None:
        while len(self.begun) < len(self.buckets):
            bucket = self.buckets[len(self.begun)]
            if not self.missing.isdisjoint(bucket):
                return
            flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
            self.begun.append((flat, cast(dist.Work, dist.all_reduce(flat, async_op=True))))


def in_buckets(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Neighbors together up to ``BUCKET_BYTES``; a larger parameter gets its own bucket."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        room -= parameter.nbytes
        if room < 0:
            buckets.append([])
            room = BUCKET_BYTES - parameter.nbytes
        buckets[-1].append(parameter)
    return buckets


def pick_device() -> torch.device:
    """The GPU assigned to this process, or the CPU. Raises RuntimeError if there was one, and CUDA has lost it."""
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    if torch.version.cuda and os.environ.get("CUDA_VISIBLE_DEVICES", "-1") not in ("", "-1"):
        raise RuntimeError("No CUDA GPUs are available, but CUDA_VISIBLE_DEVICES names one")
    return torch.device("cpu")


def describe_device(worker: Worker) -> str:
    """The device's name, such as "NVIDIA H200 × 8" or "cpu"."""
    name = torch.cuda.get_device_name(worker.device) if worker.device.type == "cuda" else "cpu"
    return name if worker.world == 1 else f"{name} × {worker.world}"


@contextmanager
def join(
    rank: int, world: int, address: str, threads: int, tokens_per_micro_batch: int, stop: Callable[[], bool] = never
) -> Iterator[Worker]:
    """Join as worker ``rank`` of ``world``; the group forms at ``address`` (host:port of rank zero)."""
    torch.set_num_threads(threads)
    device = pick_device()
    if world == 1:
        yield Worker(device=device, tokens_per_micro_batch=tokens_per_micro_batch, stop=stop)
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    form_group(backend, address, rank, world)
    try:
        yield Worker(rank, world, device, tokens_per_micro_batch, stop)
    finally:
        dist.destroy_process_group()
