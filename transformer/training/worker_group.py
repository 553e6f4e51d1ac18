"""The worker group of one trial: one process per worker, joined by torch.distributed."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from transformer.config import TOKENS_PER_MICRO_BATCH, TrainConfig
from transformer.faults import NotFiniteError

Item = TypeVar("Item")
BUCKET_BYTES = 25 * 2**20
"""Large enough for the network, and small enough that all-reduces start early in backward."""


class StopRequested(Exception):  # noqa: N818 — not an error
    """A worker got a stop request during an evaluation. All workers of the group raise it."""


def never() -> bool:
    """The default: no stop request, ever."""
    return False


@dataclass(frozen=True)
class Worker:
    """One process of a worker group; a single worker needs no process group.

    ``stop`` returns whether this worker should stop; each call is a sign of life.
    """

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    tokens_per_micro_batch: int = TOKENS_PER_MICRO_BATCH["cpu"]  # sentences × longest side
    stop: Callable[[], bool] = never

    @property
    def persistent(self) -> "Worker":
        """This worker for work that no stop request interrupts; it still gives signs of life."""

        def give_sign_of_life() -> bool:
            self.stop()
            return False

        return replace(self, stop=give_sign_of_life)

    @property
    def is_rank_zero(self) -> bool:
        """Whether this worker keeps the scores of the worker group."""
        return self.rank == 0

    @property
    def uses_cuda_graphs(self) -> bool:
        """Whether this worker replays CUDA graphs.

        Only a single worker does, since graphs don't record all-reduces.
        """
        return self.device.type == "cuda" and self.world == 1

    @contextmanager
    def summing_gradients(self, model: nn.Module) -> Iterator[None]:
        """A context for the last backward pass of a step, empty if this worker has none.

        At its end each gradient is summed over all workers. The all-reduces overlap with the
        backward pass.
        """
        if self.world == 1:
            yield
            return
        parameters = list(model.parameters())
        sums = GradientSums(parameters)
        hooks = [parameter.register_post_accumulate_grad_hook(sums.add) for parameter in parameters]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
        sums.finish()

    def all_reduce(self, values: Iterable[float | Tensor]) -> list[float]:
        """Numbers summed over all workers, in float64."""
        numbers = [float(value) for value in values]
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(total)
        sums: list[float] = total.tolist()
        return sums

    def gather(self, items: Any) -> list[Any]:
        """The items of all workers, in the order of their ranks."""
        if self.world == 1:
            return [items]
        gathered: list[Any] = [None for _ in range(self.world)]
        dist.all_gather_object(gathered, items)
        return gathered

    def gather_sentences(self, share: Iterable[tuple[int, Item]]) -> list[Item]:
        """The results of all workers for the sentences of a set, in the order of the set.

        Each worker computes its own ``share``: numbers of sentences, and their results. Shares
        differ in size, so a worker that should stop, or that gets NaN, says so after its share.
        Raises StopRequested and NotFiniteError, on all workers.
        """
        shares = self.gather(self._compute(share))
        if any(share.stops for share in shares):
            raise StopRequested
        not_finite = [number for share in shares for number in share.not_finite]
        if not_finite:
            raise NotFiniteError(not_finite)
        results = [result for share in shares for result in share.results]
        return [result for _, result in sorted(results, key=itemgetter(0))]

    def _compute(self, share: Iterable[tuple[int, Item]]) -> "_ShareResults[Item]":
        """Compute this worker's share, up to a stop request or to output that is not finite."""
        results = list[tuple[int, Item]]()
        try:
            for result in share:
                results.append(result)
                if self.stop():
                    return _ShareResults(results, [], stops=True)
        except NotFiniteError as error:
            return _ShareResults(results, error.places, stops=False)
        return _ShareResults(results, [], stops=False)


class _ShareResults(NamedTuple, Generic[Item]):
    """One worker's results by sentence number, and how its work ended.

    ``not_finite`` holds the numbers of the sentences for which the model's output is not finite.
    """

    results: list[tuple[int, Item]]
    not_finite: list[int]
    stops: bool


class GradientSums:
    """All-reduces gradients in buckets, in the order of the backward pass: last parameter first.

    A bucket's all-reduce starts once its gradients are complete and the earlier all-reduces have
    started. All workers must start them in the same order, including a worker without gradients.
    """

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self.buckets = in_buckets(parameters[::-1])
        self.missing = set(parameters)
        self.all_reduces: list[tuple[Tensor, dist.Work]] = []

    def add(self, parameter: Tensor) -> None:
        """Note that this worker's gradient of ``parameter`` is complete."""
        self.missing.discard(cast(nn.Parameter, parameter))
        self._start_complete_buckets()

    def finish(self) -> None:
        """Start the remaining all-reduces, wait for all of them, and write back the sums.

        A gradient that was not added counts as it is, or as 0 if the parameter has none.
        """
        self.missing.clear()
        self._start_complete_buckets()
        for bucket, (flat, work) in zip(self.buckets, self.all_reduces, strict=True):
            work.wait()
            sums = flat.split([parameter.numel() for parameter in bucket])
            for parameter, gradient_sum in zip(bucket, sums, strict=True):
                parameter.grad = gradient_sum.view_as(parameter)

    def _start_complete_buckets(self) -> None:
        """Start all-reduces in order, up to the first bucket with a missing gradient."""
        for bucket in self.buckets[len(self.all_reduces) :]:
            if not self.missing.isdisjoint(bucket):
                return
            flat = torch.cat([_flat_gradient(parameter) for parameter in bucket])
            work = cast(dist.Work, dist.all_reduce(flat, async_op=True))
            self.all_reduces.append((flat, work))


def _flat_gradient(parameter: nn.Parameter) -> Tensor:
    """The gradient as one dimension; zeros if the parameter has none."""
    gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    return gradient.flatten()


def in_buckets(parameters: list[nn.Parameter]) -> list[list[nn.Parameter]]:
    """The parameters in buckets of neighbors, up to ``BUCKET_BYTES`` each.

    A larger parameter gets its own bucket.
    """
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
    """The GPU assigned to this process, or the CPU.

    Raises RuntimeError if a GPU is assigned, but CUDA has lost it.
    """
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    assigned = os.environ.get("CUDA_VISIBLE_DEVICES", "-1")
    if torch.version.cuda and assigned not in ("", "-1"):
        raise RuntimeError("No CUDA GPUs are available, but CUDA_VISIBLE_DEVICES names one")
    return torch.device("cpu")


def tokens_per_micro_batch(train: TrainConfig, device: torch.device) -> int:
    """The limit of a micro-batch: sentences × longest side."""
    return train.tokens_per_micro_batch or TOKENS_PER_MICRO_BATCH[device.type]
