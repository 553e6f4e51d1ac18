"""How a query and a key make a logit: their dot product, scaled or not, or a sum (section 3.2.1).

Shape suffixes: N sentences × heads, B batch, H heads, T queries, S keys, K d_k; M T × S of a slice.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer.cost import LARGEST_SLICE

BUFFERS_BACKWARD = 2
"""Tensors of a slice's size in the backward pass: tanh(q + k), and the gradient of it."""


@dataclass(frozen=True)
class AttentionScore:
    """q·k times ``scale``; or v·tanh(q + k) if there are vectors ``vector_HK``, one per head.

    An additive score is v·tanh(Wq + Uk). Here W and U are a head's W^Q and W^K, since a further
    linear map of what they make would add nothing. So the hidden width is d_k.
    """

    scale: float
    vector_HK: Tensor | None = None

    @property
    def is_product(self) -> bool:
        """Whether fused kernels compute it."""
        return self.vector_HK is None

    def logits(self, query_BHTK: Tensor, key_BHSK: Tensor) -> Tensor:
        """[B, H, T, S], before any mask."""
        if self.vector_HK is None:
            return (query_BHTK * self.scale) @ key_BHSK.transpose(-2, -1)
        return additive_logits(query_BHTK, key_BHSK, self.vector_HK)


def additive_logits(query_BHTK: Tensor, key_BHSK: Tensor, vector_HK: Tensor) -> Tensor:
    """v·tanh(q + k) [B, H, T, S]; memory never holds more than a slice of the sums [T, S, K]."""
    batch, heads, _, _ = query_BHTK.shape
    vector_NK = vector_HK.to(query_BHTK.dtype).repeat(batch, 1)
    logits_NTS: Tensor = _AdditiveLogits.apply(  # type: ignore[no-untyped-call]
        query_BHTK.flatten(0, 1),
        key_BHSK.flatten(0, 1),
        vector_NK,
    )
    logits_BHTS: Tensor = logits_NTS.unflatten(0, (batch, heads))
    return logits_BHTS


class _AdditiveLogits(torch.autograd.Function):
    """The logits slice by slice; the backward pass computes the sums of a slice again."""

    @staticmethod
    def forward(ctx: Any, query_NTK: Tensor, key_NSK: Tensor, vector_NK: Tensor) -> Tensor:
        ctx.save_for_backward(query_NTK, key_NSK, vector_NK)
        heads, queries, _ = query_NTK.shape
        logits_NTS = query_NTK.new_empty(heads, queries, key_NSK.shape[1])
        for rows in _slices(query_NTK, key_NSK, buffers=1):
            logits_NTS[rows.heads, rows.queries] = _slice_of_logits(
                query_NTK, key_NSK, vector_NK, rows
            )
        return logits_NTS

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query_NTK, key_NSK, vector_NK = ctx.saved_tensors
        query_gradient = torch.empty_like(query_NTK)
        key_gradient = _zeros(key_NSK)
        vector_gradient = _zeros(vector_NK)
        for rows in _slices(query_NTK, key_NSK, BUFFERS_BACKWARD):
            query_slice, key_slice, vector_slice = _slice_of_gradients(
                query_NTK, key_NSK, vector_NK, grads[0], rows
            )
            query_gradient[rows.heads, rows.queries] = query_slice
            key_gradient[rows.heads] += key_slice
            vector_gradient[rows.heads] += vector_slice
        return (
            query_gradient,
            key_gradient.to(key_NSK.dtype),
            vector_gradient.to(vector_NK.dtype),
        )


def _zeros(x: Tensor) -> Tensor:
    """Zeros in the shape of ``x``, in float32 at least: slices are added up in it."""
    return torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))


@dataclass(frozen=True)
class _Rows:
    """A slice of the heads, and of the queries of each."""

    heads: slice
    queries: slice


def _hidden(query_NTK: Tensor, key_NSK: Tensor, rows: _Rows) -> Tensor:
    """tanh(q + k) [N, T, S, K] of these rows."""
    query = query_NTK[rows.heads, rows.queries, None]
    key = key_NSK[rows.heads, None]
    return (query + key).tanh_()


def _slice_of_logits(query_NTK: Tensor, key_NSK: Tensor, vector_NK: Tensor, rows: _Rows) -> Tensor:
    """[N, T, S] of these rows. Its sums are freed before those of the next slice are made."""
    hidden_NTSK = _hidden(query_NTK, key_NSK, rows)
    logits_NM1 = hidden_NTSK.flatten(1, 2) @ vector_NK[rows.heads, :, None]
    return logits_NM1.view(hidden_NTSK.shape[:-1])


def _slice_of_gradients(
    query_NTK: Tensor, key_NSK: Tensor, vector_NK: Tensor, gradient_NTS: Tensor, rows: _Rows
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the queries [N, T, K], keys [N, S, K] and vectors [N, K] of these rows.

    With g, the logits' gradient, and h = tanh(q + k): g·h, summed over T and S, for v; and
    g·v·(1 − h²), summed over S for q, and over T for k.
    """
    hidden_NTSK = _hidden(query_NTK, key_NSK, rows)
    hidden_NMK = hidden_NTSK.flatten(1, 2)
    gradient_NM1 = gradient_NTS[rows.heads, rows.queries].flatten(1)[:, :, None]
    gradient_NM1 = gradient_NM1.to(hidden_NMK.dtype)
    vector_gradient_NK = (gradient_NM1.transpose(1, 2) @ hidden_NMK)[:, 0]
    hidden_gradient_NMK = gradient_NM1 @ vector_NK[rows.heads, None]
    # In place, for memory: this overwrites hidden_NTSK, too, which nothing reads from here on.
    sum_gradient_NMK = hidden_NMK.square_().neg_().add_(1).mul_(hidden_gradient_NMK)
    sum_gradient_NTSK = sum_gradient_NMK.view_as(hidden_NTSK)
    return sum_gradient_NTSK.sum(2), sum_gradient_NTSK.sum(1), vector_gradient_NK


def _slices(query_NTK: Tensor, key_NSK: Tensor, buffers: int) -> Iterator[_Rows]:
    """Whole heads, as many as ``LARGEST_SLICE`` holds; or some queries of one head.

    ``buffers``: how many tensors of a slice's size are in memory.
    """
    heads, queries, width = query_NTK.shape
    bytes_per_query = buffers * key_NSK.shape[1] * width * query_NTK.element_size()
    queries_at_once = max(1, LARGEST_SLICE // bytes_per_query)
    heads_at_once = max(1, queries_at_once // queries)
    for first_head in range(0, heads, heads_at_once):
        for first_query in range(0, queries, queries_at_once):
            yield _Rows(
                slice(first_head, first_head + heads_at_once),
                slice(first_query, first_query + queries_at_once),
            )
