"""The workers of one trial: one process each, joined by torch.distributed."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

BUCKET_BYTES = 25 * 2**20
"""Large enough for the network, small enough for the first sums to begin early in the backward pass."""


class StopRequested(Exception):  # noqa: N818 — it is no error
    """This worker was asked to stop while it evaluated."""


def never() -> bool:
    """Nobody asks to stop."""
    return False


@dataclass(frozen=True)
class Worker:
    """This process's place in its gang; a gang of one needs no process group. ``stop`` says whether it should end."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    tokens_per_pass: int = 25_000  # what goes through the model at once: sentences × longest side
    stop: Callable[[], bool] = never

    @property
    def leads(self) -> bool:
        """Whether this worker speaks for the gang: reports, and writes checkpoints."""
        return self.rank == 0

    @property
    def captures(self) -> bool:
        """Whether this worker replays CUDA graphs; sums over workers are not recorded."""
        return self.device.type == "cuda" and self.world == 1

    @contextmanager
    def summing_gradients(self, model: nn.Module) -> Iterator[None]:
        """Around the last backward pass of a step, or nothing if this worker has none: it ends with each gradient being
        its sum over all workers. The sums are made while the pass still runs."""
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

    def raise_if_stopped(self) -> None:
        """For work that is done again after a resume, and that the other workers need not finish either."""
        if self.stop():
            raise StopRequested


class StopVote:
    """Whether any worker was asked to stop, agreed on at every step: all must leave training after the same one.

    Several workers vote while a step runs and count after the next one, so that no step waits for the votes.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        several_gpus = worker.world > 1 and worker.device.type == "cuda"
        self.group = dist.new_group(backend="gloo") if several_gpus else None  # a GPU's vote would wait for its queue
        self.cast: tuple[Tensor, dist.Work] | None = None

    def agreed(self) -> bool:
        """Whether training ends after this step; to be called once per step, by every worker."""
        if self.worker.world == 1:
            return self.worker.stop()
        before, votes = self.cast, torch.tensor(float(self.worker.stop()))
        self.cast = votes, cast(dist.Work, dist.all_reduce(votes, group=self.group, async_op=True))
        if before is None:
            return False
        before[1].wait()
        return bool(before[0])


class GradientSums:
    """Gradients summed over all workers in buckets, from the last parameter to the first, as a backward pass has them.

    A bucket's sum begins when its gradients are there and the sums before it have begun: all workers must begin them
    in the same order, also one that has no gradients to add.
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
        """Gradients that were not added stay as they are, and count as 0 if there are none."""
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
    """Neighbours together up to ``BUCKET_BYTES``; what is larger stands alone."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        room -= parameter.nbytes
        if room < 0:
            buckets.append([])
            room = BUCKET_BYTES - parameter.nbytes
        buckets[-1].append(parameter)
    return buckets


def is_lost_peer(error: Exception) -> bool:
    """Whether an error of this worker says no more than that it cannot reach another one."""
    unreachable = re.search(r"\bgloo\b|Connection (closed|reset|refused)", str(error))
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and unreachable is not None)


def pick_device() -> torch.device:
    """The GPU this process was given, or the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")


def describe_device(worker: Worker) -> str:
    """Such as "NVIDIA H200 × 8" or "cpu"."""
    name = torch.cuda.get_device_name(worker.device) if worker.device.type == "cuda" else "cpu"
    return name if worker.world == 1 else f"{name} × {worker.world}"


@contextmanager
def join(
    rank: int, world: int, address: str, threads: int, tokens_per_pass: int, stop: Callable[[], bool] = never
) -> Iterator[Worker]:
    """Be worker ``rank`` of ``world``, meeting the others at ``address`` (host:port of rank 0)."""
    torch.set_num_threads(threads)
    device = pick_device()
    if world == 1:
        yield Worker(device=device, tokens_per_pass=tokens_per_pass, stop=stop)
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, f"tcp://{address}", timeout=timedelta(minutes=10), rank=rank, world_size=world)
    try:
        yield Worker(rank, world, device, tokens_per_pass, stop)
    finally:
        dist.destroy_process_group()
