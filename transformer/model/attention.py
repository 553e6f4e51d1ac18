"""Multi-head attention (sections 3.2.1 and 3.2.2).

Shape suffixes: B batch, T queries, S keys, D d_model, H heads, K d_k, V d_v.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.model.attention_score import AttentionScore
from transformer.model.on_cpu import dropout, softmax
from transformer.window import Chunk, Window

Mask = Tensor | Literal["causal"] | None
"""−∞ at illegal positions, broadcast to [B, H, T, S]; None if all positions are legal.

"causal" is for kernels that support it.
"""


class KeyValue(NamedTuple):
    """Keys [B, H, S, K] and values [B, H, S, V] that attention reads."""

    key_BHSK: Tensor
    value_BHSV: Tensor


class Projection(NamedTuple):
    """A projection from d_model to all heads: weight [H·C, D], and bias [H·C] if it has one."""

    weight: Tensor
    bias: Tensor | None


Observer = Callable[[Tensor, Tensor], None]
"""Called with the masked logits and the weights of a forward pass, both [B, H, T, S]."""


def attend(
    query_BHTK: Tensor,
    memory: KeyValue,
    mask: Mask,
    p_drop: float,
    score: AttentionScore,
    observer: Observer | None = None,
) -> Tensor:
    """softmax(logits)V, as [B, T, H·V]; the softmax is float32 for any precision of the matmuls.

    A GPU uses fused kernels; on CPUs, explicit matmuls are faster at these lengths. Fused kernels
    know no additive score, and nothing can observe them.
    """
    if query_BHTK.device.type == "cuda" and score.is_product and observer is None:
        attended_BHTV = _fused(query_BHTK, memory, mask, p_drop, score)
    else:
        attended_BHTV = _explicit(query_BHTK, memory, mask, p_drop, score, observer)
    return attended_BHTV.transpose(1, 2).flatten(2)


def _fused(
    query_BHTK: Tensor,
    memory: KeyValue,
    mask: Mask,
    p_drop: float,
    score: AttentionScore,
) -> Tensor:
    """torch picks the fastest kernel that supports the mask, the precision, and d_k ≠ d_v."""
    return F.scaled_dot_product_attention(
        query_BHTK,
        memory.key_BHSK,
        memory.value_BHSV,
        attn_mask=None if isinstance(mask, str) else mask,
        dropout_p=p_drop,
        is_causal=isinstance(mask, str),
        scale=score.scale,
    )


def _explicit(
    query_BHTK: Tensor,
    memory: KeyValue,
    mask: Mask,
    p_drop: float,
    score: AttentionScore,
    observer: Observer | None = None,
) -> Tensor:
    """The formula in separate steps, with dropout on the weights."""
    logits_BHTS = score.logits(query_BHTK, memory.key_BHSK)
    if isinstance(mask, str):
        mask = _later_hidden(query_BHTK.shape[2], query_BHTK.device)
    if mask is not None:
        logits_BHTS = logits_BHTS + mask
    weights_BHTS = softmax(logits_BHTS)
    if observer is not None:
        observer(logits_BHTS, weights_BHTS)
    weights_BHTS = weights_BHTS.to(memory.value_BHSV.dtype)
    return dropout(weights_BHTS, p_drop) @ memory.value_BHSV


def causal_mask(length: int, device: torch.device) -> Mask:
    """The mask that hides later positions: [T, T], −∞ above the diagonal.

    On a GPU it is "causal", for the fused kernels.
    """
    if device.type == "cuda":
        return "causal"
    return _later_hidden(length, device)


def _later_hidden(length: int, device: torch.device) -> Tensor:
    """[T, T], −∞ above the diagonal."""
    return torch.full((length, length), -math.inf, device=device).triu(1)


def padding_mask(pad_BS: Tensor) -> Tensor:
    """[B, 1, 1, S], −∞ where ``pad_BS`` is true."""
    zeros = torch.zeros(pad_BS.shape, device=pad_BS.device)
    return zeros.masked_fill(pad_BS, -math.inf)[:, None, None, :]


def chunk_mask(
    window: Window,
    chunk: Chunk,
    padding: Tensor | None,
    device: torch.device,
) -> Tensor:
    """−∞ outside the window and at padding, as [T, S] or [B, 1, T, S]; T and S are the chunk's.

    A padded query may have only padding in its window. Its own key stays legal, since a softmax
    over no position is NaN, and so are its gradients.
    """
    query_T1 = torch.arange(chunk.queries.start, chunk.queries.stop, device=device)[:, None]
    key_S = torch.arange(chunk.keys.start, chunk.keys.stop, device=device)
    back_TS = query_T1 - key_S
    farthest_ahead = 0 if window.causal else window.radius
    outside_TS = (back_TS > window.radius) | (back_TS < -farthest_ahead)
    mask_TS = torch.zeros(back_TS.shape, device=device).masked_fill(outside_TS, -math.inf)
    if padding is None:
        return mask_TS
    mask_B1TS = mask_TS + padding[..., chunk.keys]
    return mask_B1TS.masked_fill(back_TS == 0, 0.0)


class _Heads(nn.Module):
    """The shared parts of self- and cross-attention: biases, splitting into heads, dropout, W^O.

    Keys have no bias: it would add the same number to all scores of a query, which the softmax
    cancels. Its gradient is zero except for rounding errors, and Adam would turn these into
    full-size steps.

    ``observer``, if you set one, sees the logits and the weights of each forward pass.
    """

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.observer: Observer | None = None
        self.n_heads = model.n_heads
        self.d_k = model.d_k
        self.d_v = model.d_v
        self.p_drop = model.attention_dropout
        self.query_bias = _bias(model, model.n_heads * model.d_k)
        self.value_bias = _bias(model, model.n_heads * model.d_v)
        self.scale, self.score_vector = _score_parts(model)
        self.output = nn.Linear(model.n_heads * model.d_v, model.d_model, bias=model.attention_bias)

    def with_biases(self, weights: Sequence[Tensor]) -> list[Projection]:
        """W^Q, W^K and W^V, each [H·C, D], with their biases."""
        query, key, value = weights
        return [
            Projection(query, self.query_bias),
            Projection(key, None),
            Projection(value, self.value_bias),
        ]

    def heads(self, x_BTC: Tensor) -> Tensor:
        """[B, T, H·C] to [B, H, T, C]."""
        x_BTHC: Tensor = x_BTC.unflatten(-1, (self.n_heads, -1))
        return x_BTHC.transpose(1, 2)

    def key_value(self, key_BSC: Tensor, value_BSC: Tensor) -> KeyValue:
        """Projected keys [B, S, H·K] and values [B, S, H·V], with biases and split into heads."""
        biased_value_BSC = _biased(value_BSC, self.value_bias)
        return KeyValue(self.heads(key_BSC), self.heads(biased_value_BSC))

    def read(self, query_BTC: Tensor, memory: KeyValue, mask: Mask) -> Tensor:
        """Attend from projected queries [B, T, H·K] to ``memory``, and project to [B, T, D]."""
        query_BHTK = self.heads(_biased(query_BTC, self.query_bias))
        out_BTD: Tensor = self.output(self.attend(query_BHTK, memory, mask))
        return out_BTD

    def attend(self, query_BHTK: Tensor, memory: KeyValue, mask: Mask) -> Tensor:
        """What the queries read of ``memory``, [B, T, H·V]."""
        p_drop = self.p_drop if self.training else 0.0
        score = AttentionScore(self.scale, self.score_vector)
        return attend(query_BHTK, memory, mask, p_drop, score, self.observer)


def _score_parts(model: ModelConfig) -> tuple[float, nn.Parameter | None]:
    """The scale of dot products, and the vectors [H, K] of an additive score."""
    match model.attention_score:
        case "scaled":
            return 1 / math.sqrt(model.d_k), None
        case "dot":
            return 1.0, None
        case "additive":
            return 1.0, nn.Parameter(torch.empty(model.n_heads, model.d_k))
        case _:
            assert_never(model.attention_score)


def _bias(model: ModelConfig, width: int) -> nn.Parameter | None:
    """A bias [width] of zeros, or None if the model's attention has no biases."""
    return nn.Parameter(torch.zeros(width)) if model.attention_bias else None


def _biased(x: Tensor, bias: Tensor | None) -> Tensor:
    """x + bias, in the precision of ``x``."""
    return x if bias is None else x + bias.to(x.dtype)


class SelfAttention(_Heads):
    """Queries, keys and values from the same sequence, in one fused projection.

    With a window, ``causal`` says whether it ends at its own position.
    """

    def __init__(self, model: ModelConfig, causal: bool = False) -> None:
        super().__init__(model)
        key_width = model.n_heads * model.d_k
        value_width = model.n_heads * model.d_v
        self.widths = [key_width, key_width, value_width]
        self.qkv = nn.Linear(model.d_model, sum(self.widths), bias=False)
        radius = model.attention_radius
        self.window = None if radius is None else Window(radius, causal)

    def projections(self) -> list[Projection]:
        """The projections to queries, keys and values, in this order: views of the weights."""
        return self.with_biases(self.qkv.weight.split(self.widths))

    def forward(
        self,
        x_BTD: Tensor,
        mask: Mask,
        past: KeyValue | None = None,
    ) -> tuple[Tensor, KeyValue]:
        """Attended [B, T, D], and ``past`` with this call's keys and values appended.

        With a window, ``mask`` holds only padding, and the result only the keys that later
        positions can read.
        """
        query, key, value = self.qkv(x_BTD).split(self.widths, dim=-1)
        memory = self.key_value(key, value)
        if past is not None:
            memory = self._appended(past, memory)
        elif self.window is not None:
            return self._read_within(self.window, query, memory, mask), memory
        return self.read(query, memory, mask), memory

    def _appended(self, past: KeyValue, present: KeyValue) -> KeyValue:
        """Both after another; with a window, only as many as the last position reads."""
        keys = torch.cat([past.key_BHSK, present.key_BHSK], dim=2)
        values = torch.cat([past.value_BHSV, present.value_BHSV], dim=2)
        if self.window is None:
            return KeyValue(keys, values)
        first = max(0, keys.shape[2] - self.window.radius - 1)
        return KeyValue(keys[:, :, first:], values[:, :, first:])

    def _read_within(
        self,
        window: Window,
        query_BTC: Tensor,
        memory: KeyValue,
        padding: Mask,
    ) -> Tensor:
        """Attend chunk by chunk, in time and memory of T × window, and project to [B, T, D]."""
        assert not isinstance(padding, str)
        length = query_BTC.shape[1]
        device = query_BTC.device
        if window.covers(length):
            mask = causal_mask(length, device) if window.causal else padding
            return self.read(query_BTC, memory, mask)
        chunks = list(window.chunks(length))
        if self.observer is not None:  # it sees all weights at once
            chunks = [Chunk(slice(0, length), slice(0, length))]
        query_BHTK = self.heads(_biased(query_BTC, self.query_bias))
        attended: list[Tensor] = []
        for chunk in chunks:
            mask = chunk_mask(window, chunk, padding, device)
            keys = memory.key_BHSK[:, :, chunk.keys]
            values = memory.value_BHSV[:, :, chunk.keys]
            query = query_BHTK[:, :, chunk.queries]
            attended.append(self.attend(query, KeyValue(keys, values), mask))
        out_BTD: Tensor = self.output(torch.cat(attended, dim=1))
        return out_BTD


class CrossAttention(_Heads):
    """Queries from the decoder, keys and values from the encoder's output."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__(model)
        self.widths = [model.n_heads * model.d_k, model.n_heads * model.d_v]
        self.query = nn.Linear(model.d_model, self.widths[0], bias=False)
        self.kv = nn.Linear(model.d_model, sum(self.widths), bias=False)

    def projections(self) -> list[Projection]:
        """The projections to queries, keys and values, in this order: views of the weights."""
        return self.with_biases([self.query.weight, *self.kv.weight.split(self.widths)])

    def memory(self, encoded_BSD: Tensor) -> KeyValue:
        """Keys and values of the source, which every decoding step reads again."""
        key, value = self.kv(encoded_BSD).split(self.widths, dim=-1)
        return self.key_value(key, value)

    def forward(self, x_BTD: Tensor, memory: KeyValue, mask: Mask) -> Tensor:
        """Attended [B, T, D] for the decoder's ``x_BTD``."""
        return self.read(self.query(x_BTD), memory, mask)
