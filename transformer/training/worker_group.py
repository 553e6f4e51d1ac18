"""The worker group of one trial: one process per worker, joined by torch.distributed."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer.config import TOKENS_PER_MICRO_BATCH, TrainConfig
from transformer.faults import NotFiniteError

Item = TypeVar("Item")
BUCKET_BYTES = 25 * 2**20
"""Large enough for the network, small enough that the first all-reduces start early in the backward pass."""


class StopRequested(Exception):  # noqa: N818 — not an error
    """A worker got a stop request during evaluation; raised on all workers of the group."""


def never() -> bool:
    """The default: no stop request, ever."""
    return False


@dataclass(frozen=True)
class Worker:
    """One process of a worker group; a single worker needs no process group.

    ``stop`` returns whether this worker is asked to stop; each call is a sign of life.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    tokens_per_micro_batch: int = 25_000  # limit of a micro-batch: sentences × longest side
    stop: Callable[[], bool] = never

    @property
    def persistent(self) -> "Worker":
        """The same for work that a stop request does not break off; it still gives signs of life."""
        return replace(self, stop=lambda: self.stop() and False)

    @property
    def is_rank_zero(self) -> bool:
        """Whether this worker keeps the scores of the worker group."""
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

    def gather_sentences(self, share: Iterable[tuple[int, Item]]) -> list[Item]:
        """What all workers find of the sentences of a set, in the order of the set; each computes its own ``share``.

        Shares differ in size, so a worker that is asked to stop, or finds NaN, tells the others after its share.
        Raises StopRequested and NotFiniteError, on all workers.
        """
        mine, lost, stops = list[tuple[int, Item]](), list[int](), False
        try:
            for item in share:
                mine.append(item)
                if stops := self.stop():
                    break
        except NotFiniteError as error:
            lost = error.places
        shares, lost_ones, stopped = zip(*self.gather((mine, lost, stops)), strict=True)
        if any(stopped):
            raise StopRequested
        if any(lost_ones):
            raise NotFiniteError(chain(*lost_ones))
        return [found for _, found in sorted(chain(*shares), key=itemgetter(0))]


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


def tokens_per_micro_batch(train: TrainConfig, device: torch.device) -> int:
    """The limit of a micro-batch: sentences × longest side."""
    return train.tokens_per_micro_batch or TOKENS_PER_MICRO_BATCH[device.type]
