"""The full model: positions, layers, shared embedding, encoder and decoder (sections 3.1, 3.3 to 3.5, 5.4).

Shape suffixes: B batch, S source, T target, N outputs of one source, D d_model, F d_ff, P pieces of the vocabulary.
"""

import math
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.data.vocabulary import PAD
from transformer.model.attention import (
    CrossAttention,
    KeyValue,
    Mask,
    SelfAttention,
    causal_mask,
    padding_mask,
)
from transformer.model.on_cpu import dropout


def sinusoids(length: int, d_model: int) -> Tensor:
    """[length, d_model]: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    frequency = 10000 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = position * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class Positions(nn.Module):
    """A table [max_positions, d_model] added to the embeddings: fixed sinusoids, or learned."""

    table: Tensor

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        match model.positions:
            case "learned":
                self.table = nn.Parameter(torch.empty(model.max_positions, model.d_model))
                nn.init.normal_(self.table, std=model.d_model**-0.5)
            case "sinusoids":
                self.register_buffer("table", sinusoids(model.max_positions, model.d_model), persistent=False)
            case _:
                assert_never(model.positions)

    def forward(self, start: int, length: int) -> Tensor:
        """[length, d_model] for positions start … start + length − 1."""
        return self.table[start : start + length]


class Residual(nn.Module):
    """LayerNorm(x + Dropout(y)), where y is a sub-layer's output for x."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.p_drop = model.p_drop
        self.norm = nn.LayerNorm(model.d_model)

    def forward(self, x_BTD: Tensor, y_BTD: Tensor) -> Tensor:
        normed: Tensor = self.norm(x_BTD + dropout(y_BTD, self.p_drop, self.training))
        return normed


class FeedForward(nn.Module):
    """max(0, xW₁ + b₁)W₂ + b₂ (section 3.3)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.relu_dropout = model.relu_dropout
        self.inner = nn.Linear(model.d_model, model.d_ff)
        self.outer = nn.Linear(model.d_ff, model.d_model)

    def forward(self, x_BTD: Tensor) -> Tensor:
        hidden_BTF = dropout(F.relu(self.inner(x_BTD)), self.relu_dropout, self.training)
        out_BTD: Tensor = self.outer(hidden_BTF)
        return out_BTD


class EncoderLayer(nn.Module):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(model), Residual(model)
        self.feed_forward, self.feed_forward_residual = FeedForward(model), Residual(model)

    def forward(self, x_BSD: Tensor, mask: Mask) -> Tensor:
        attended, _ = self.attention(x_BSD, mask)
        x_BSD = self.attention_residual(x_BSD, attended)
        out_BSD: Tensor = self.feed_forward_residual(x_BSD, self.feed_forward(x_BSD))
        return out_BSD


class DecoderLayer(nn.Module):
    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention, self.attention_residual = SelfAttention(model), Residual(model)
        self.cross, self.cross_residual = CrossAttention(model), Residual(model)
        self.feed_forward, self.feed_forward_residual = FeedForward(model), Residual(model)

    def forward(
        self,
        x_BTD: Tensor,
        memory: KeyValue,
        source_mask: Mask,
        target_mask: Mask,
    ) -> Tensor:
        attended, _ = self.attention(x_BTD, target_mask)
        return self._after_attention(x_BTD, attended, memory, source_mask)

    def step(
        self, x_BND: Tensor, memory: KeyValue, source_mask: Mask, past: KeyValue | None
    ) -> tuple[Tensor, KeyValue]:
        """One position of N outputs of each source: they share the source's memory, and each sees only its own past.

        Returns the layer's output [B, N, D], and the keys and values [B·N, H, S, ·] to pass as ``past`` next time.
        """
        attended, present = self.attention(x_BND.flatten(0, 1)[:, None], None, past)
        return self._after_attention(x_BND, attended.view_as(x_BND), memory, source_mask), present

    def _after_attention(self, x_BTD: Tensor, attended: Tensor, memory: KeyValue, source_mask: Mask) -> Tensor:
        x_BTD = self.attention_residual(x_BTD, attended)
        x_BTD = self.cross_residual(x_BTD, self.cross(x_BTD, memory, source_mask))
        out_BTD: Tensor = self.feed_forward_residual(x_BTD, self.feed_forward(x_BTD))
        return out_BTD


HEADS_GAIN = math.sqrt(0.5)
"""Gain on Glorot's scale for W^Q, W^K and W^V. With a gain of 1, training starts more slowly (docs/log.md)."""


@dataclass
class Cache:
    """The inputs for decoding the next piece, per layer: keys and values of the source and of the pieces so far.

    The source's tensors are [B, …], one row per sentence; those of its N outputs are [B·N, …].
    """

    source_mask: Tensor | None
    source: list[KeyValue]
    target: list[KeyValue | None]
    length: int = 0

    def select(self, sentences: Tensor, outputs: Tensor) -> None:
        """Keep the rows ``sentences`` of the sources and the rows ``outputs`` of the outputs, in this order."""
        self.source_mask = None if self.source_mask is None else self.source_mask.index_select(0, sentences)
        self.source = [_rows(memory, sentences) for memory in self.source]
        self.reorder(outputs)

    def reorder(self, outputs: Tensor) -> None:
        """Keep the rows ``outputs`` of the outputs, in this order; a row may be taken more than once."""
        self.target = [memory and _rows(memory, outputs) for memory in self.target]


def _rows(memory: KeyValue, rows: Tensor) -> KeyValue:
    return KeyValue(*(part.index_select(0, rows) for part in memory))


class Transformer(nn.Module):
    """Encoder–decoder with one matrix [P, D] that embeds both languages and projects to the pieces."""

    def __init__(self, model: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = model, vocab_size
        self.embedding = nn.Parameter(torch.empty(vocab_size, model.d_model))
        self.source_positions = Positions(model)
        self.target_positions = Positions(model) if model.positions == "learned" else self.source_positions
        self.encoder = nn.ModuleList(EncoderLayer(model) for _ in range(model.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(model) for _ in range(model.n_layers))
        _initialize(self)

    def forward(self, source_BS: Tensor, target_BT: Tensor, source_padded: bool | None = None) -> Tensor:
        """Decoder output [B, T, D] for source pieces and the target pieces shifted right.

        ``source_padded`` says whether the source contains padding; None looks it up, which waits for a GPU.
        """
        source_mask = self._source_mask(source_BS, source_padded)
        encoded_BSD = self._encode(source_BS, source_mask)
        x_BTD = self._embed(target_BT, self.target_positions(0, target_BT.shape[1]))
        mask = causal_mask(target_BT.shape[1], target_BT.device)  # padding comes last, so causality hides it
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            x_BTD = layer(x_BTD, layer.cross.memory(encoded_BSD), source_mask, mask)
        return x_BTD

    def logits(self, x_BTD: Tensor) -> Tensor:
        """Scores [..., P] of the next piece, before the softmax."""
        return F.linear(x_BTD, self.embedding)

    def start(self, source_BS: Tensor) -> Cache:
        """Encode source pieces, and return the cache for decoding from the first position."""
        source_mask = self._source_mask(source_BS)
        if source_mask is not None:
            source_mask = source_mask.to(self.embedding.dtype)
        encoded_BSD = self._encode(source_BS, source_mask)
        memories = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            memory = layer.cross.memory(encoded_BSD)
            memories.append(KeyValue(*(part.contiguous() for part in memory)))  # otherwise each step would copy them
        return Cache(source_mask, memories, [None] * len(memories))

    def step(self, piece_BN: Tensor, cache: Cache) -> Tensor:
        """Logits [B, N, P] of the piece after each of N outputs of a source; the cache grows by one position."""
        x_BND = self._embed(piece_BN, self.target_positions(cache.length, 1))
        for i, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            x_BND, cache.target[i] = layer.step(x_BND, cache.source[i], cache.source_mask, cache.target[i])
        cache.length += 1
        return self.logits(x_BND)

    def _source_mask(self, source_BS: Tensor, padded: bool | None = None) -> Tensor | None:
        if padded is False:
            return None
        pad_BS = source_BS == PAD
        return padding_mask(pad_BS) if padded or pad_BS.any() else None

    def _encode(self, source_BS: Tensor, source_mask: Tensor | None) -> Tensor:
        x_BSD = self._embed(source_BS, self.source_positions(0, source_BS.shape[1]))
        for layer in self.encoder:
            x_BSD = layer(x_BSD, source_mask)
        return x_BSD

    def _embed(self, pieces: Tensor, positions: Tensor) -> Tensor:
        x = torch.add(positions, F.embedding(pieces, self.embedding), alpha=math.sqrt(self.config.d_model))
        return dropout(x, self.config.p_drop, self.training)


@torch.no_grad()
def _initialize(model: Transformer) -> None:
    """Embeddings N(0, 1/d_model); every projection Glorot-uniform, with ``HEADS_GAIN`` for projections to heads.

    W^Q, W^K and W^V are parts of fused matrices. Each is drawn by its own shape; otherwise d_k would scale W^V.
    """
    nn.init.normal_(model.embedding, std=model.config.d_model**-0.5)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            for weight, _ in module.projections():
                nn.init.xavier_uniform_(weight, HEADS_GAIN)
