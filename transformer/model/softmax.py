"""Softmax of attention weights, always in float32."""

from typing import Any

import torch
from torch import Tensor

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
