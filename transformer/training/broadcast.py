"""Broadcasts values from rank zero to all workers. Only rank zero reads files that others may see differently."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from transformer.training.parallel import Worker

T = TypeVar("T")


class RankZeroError(Exception):
    """Rank zero failed, so the other workers cannot continue: its error, in one line."""


@dataclass(frozen=True)
class _Slot:
    """A placeholder for a tensor of this shape and type."""

    shape: tuple[int, ...]
    dtype: torch.dtype


def from_rank_zero(worker: Worker, make: Callable[[], T]) -> T:
    """The result of ``make`` on rank zero: plain values, and tensors on the CPU. The other workers do not call it.

    Raises the error of ``make`` on rank zero, and RankZeroError on the other workers.
    """
    if worker.world == 1:
        return make()
    return _made_and_sent(worker, make) if worker.is_rank_zero else cast(T, _received(worker))


def _made_and_sent(worker: Worker, make: Callable[[], T]) -> T:
    try:
        made = make()
    except Exception as error:
        dist.broadcast_object_list([f"{type(error).__name__}: {error}".splitlines()[0], None], src=0)
        raise
    tensors: list[Tensor] = []
    dist.broadcast_object_list(["", _outline(made, tensors)], src=0)
    for tensor in tensors:
        dist.broadcast(as_bytes(tensor).to(worker.device), src=0)
    return made


def _received(worker: Worker) -> Any:
    message: list[Any] = [None, None]
    dist.broadcast_object_list(message, src=0)
    error, outline = message
    if error:
        raise RankZeroError(f"rank zero stopped: {error}")
    return _filled(outline, worker.device)


def _outline(value: Any, tensors: list[Tensor]) -> Any:
    """The value with a slot for each of its tensors, which are appended to ``tensors`` in order."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Slot(tuple(value.shape), value.dtype)
    if isinstance(value, dict):
        return {key: _outline(item, tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_outline(item, tensors) for item in value)
    return value


def _filled(outline: Any, device: torch.device) -> Any:
    """The value with its slots filled by the next tensors from rank zero."""
    if isinstance(outline, _Slot):
        received = as_bytes(torch.empty(outline.shape, dtype=outline.dtype, device=device))
        dist.broadcast(received, src=0)
        return received.cpu().view(outline.dtype).view(outline.shape)
    if isinstance(outline, dict):
        return {key: _filled(item, device) for key, item in outline.items()}
    if isinstance(outline, list | tuple):
        return type(outline)(_filled(item, device) for item in outline)
    return outline


def as_bytes(tensor: Tensor) -> Tensor:
    """The tensor's content as a row of bytes, for any backend to send and for checksums."""
    return tensor.detach().contiguous().view(-1).view(torch.uint8)


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a nested value, by its path."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from tensors_of(item, f"{name}/{key}")
