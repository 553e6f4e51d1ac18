"""Dropout (section 5.4). On the CPU torch draws one random number per element; this one draws only 16 bits."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

BITS = 2**16


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zero each element with probability ``p`` (rounded to 1/65 536), and scale the others to keep the mean."""
    if not (training and p):
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped: Tensor = _CpuDropout.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


class _CpuDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        dropped = min(round(p * BITS), BITS - 1)
        ctx.scale = BITS / (BITS - dropped)
        keep = _random_bits(x.numel()).view(x.shape) >= dropped - BITS // 2
        ctx.save_for_backward(keep)
        return _scaled_where(keep, x, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return _scaled_where(keep, grads[0], ctx.scale), None


def _scaled_where(keep: Tensor, x: Tensor, scale: float) -> Tensor:
    """x · scale where ``keep``, 0 elsewhere: torch's backward of dropout also computes its forward."""
    scaled: Tensor = torch.ops.aten.native_dropout_backward(x, keep, scale)
    return scaled


def _random_bits(count: int) -> Tensor:
    """[count] int16, uniform over all values: drawn four at a time."""
    whole = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None)
    return whole.view(torch.int16)[:count]
