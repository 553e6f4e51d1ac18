"""Softmax and dropout for CPUs, where torch's kernels for them are slow at the sizes of attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ONE_VECTOR = 16
"""Numbers in one CPU vector: torch handles shorter rows number by number, five times slower than separate steps."""


def softmax(scores: Tensor) -> Tensor:
    """Over the last dimension; float32 for any precision of ``scores``. −∞ becomes 0."""
    if scores.device.type == "cpu" and scores.shape[-1] < ONE_VECTOR:
        weights: Tensor = _ShortSoftmax.apply(scores)  # type: ignore[no-untyped-call]
        return weights
    return torch.softmax(scores, dim=-1, dtype=torch.float32)


class _ShortSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        scores_float32 = scores.float()
        weights = (scores_float32 - scores_float32.amax(-1, keepdim=True)).exp_()
        weights.div_(weights.sum(-1, keepdim=True))
        ctx.save_for_backward(weights)
        ctx.dtype = scores.dtype
        return weights

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (weights,) = ctx.saved_tensors
        weighted: Tensor = weights * grads[0]
        return weighted.sub_(weights * weighted.sum(-1, keepdim=True)).to(ctx.dtype)


DROPOUT_BITS = 2**16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each element with probability ``p`` (rounded to 1/65 536), and scale the others to keep the mean (5.4).

    On the CPU torch draws one random number per element; this draws only 16 bits.
    """
    if not (training and p):
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped: Tensor = _CpuDropout.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        dropped = min(round(p * DROPOUT_BITS), DROPOUT_BITS - 1)
        ctx.scale = DROPOUT_BITS / (DROPOUT_BITS - dropped)
        keep = _random_keep(x, dropped)
        ctx.save_for_backward(keep)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep).mul_(ctx.scale), None


def _random_keep(x: Tensor, dropped: int) -> Tensor:
    """0 for ``dropped`` of 65 536 draws, otherwise 1, in the shape and type of ``x``.

    The scale is apart, since bfloat16 cannot hold it. The comparison stays in int16: torch's comparisons to bool and
    casts from bool are 4 to 10 times as slow.
    """
    keep = _random_bits(x.numel()).ge_(dropped - DROPOUT_BITS // 2)
    return keep.view(x.shape).to(x.dtype)


def _random_bits(count: int) -> Tensor:
    """[count] int16, uniform over all values: drawn four at a time."""
    whole = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return whole.view(torch.int16)[:count]
