"""Softmax and dropout for CPUs, where torch's kernels are slow at the sizes of attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

ONE_VECTOR = 16
"""Numbers in one CPU vector.

torch handles shorter rows number by number, five times slower than separate steps.
"""


def softmax(scores: Tensor) -> Tensor:
    """Softmax over the last dimension; float32 for any precision of ``scores``. −∞ becomes 0."""
    if scores.device.type == "cpu" and scores.shape[-1] < ONE_VECTOR:
        weights: Tensor = _ShortSoftmax.apply(scores)  # type: ignore[no-untyped-call]
        return weights
    return torch.softmax(scores, dim=-1, dtype=torch.float32)


class _ShortSoftmax(torch.autograd.Function):
    """The softmax in separate steps: maximum, exponential, sum, division."""

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


DROPOUT_VALUES = 2**16
"""How many values a draw of 16 bits can have."""


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each element with probability ``p``, and scale the rest to keep the mean (section 5.4).

    On the CPU torch draws one random number per element; this draws only 16 bits, so ``p`` is
    rounded to 1/65 536.
    """
    if not (training and p):
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped: Tensor = _CpuDropout.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


class _CpuDropout(torch.autograd.Function):
    """Multiplies by a random mask of zeros and ones, and scales. The mask is kept for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        zeros = min(round(p * DROPOUT_VALUES), DROPOUT_VALUES - 1)
        ctx.scale = DROPOUT_VALUES / (DROPOUT_VALUES - zeros)
        mask = _random_mask(x, zeros)
        ctx.save_for_backward(mask)
        return (x * mask).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (mask,) = ctx.saved_tensors
        return (grads[0] * mask).mul_(ctx.scale), None


def _random_mask(x: Tensor, zeros: int) -> Tensor:
    """0 for ``zeros`` of 65 536 values drawn, otherwise 1, in the shape and type of ``x``.

    The scale is not part of it, since bfloat16 cannot hold it. The comparison stays in int16:
    torch's comparisons to bool and casts from bool are 4 to 10 times as slow.
    """
    smallest_int16 = -DROPOUT_VALUES // 2
    mask = _random_int16(x.numel()).ge_(smallest_int16 + zeros)
    return mask.view(x.shape).to(x.dtype)


def _random_int16(count: int) -> Tensor:
    """[count] int16, uniform over all values, drawn four at a time as int64."""
    draws = -(-count // 4)
    random = torch.empty(draws, dtype=torch.int64).random_(-(2**63), None)
    return random.view(torch.int16)[:count]
