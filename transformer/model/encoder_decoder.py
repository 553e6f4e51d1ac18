"""The full model: positions, layers, shared embedding, encoder and decoder.

It follows sections 3.1, 3.3 to 3.5 and 5.4. Shape suffixes: B batch, S source, T target, N outputs
of one source, D d_model, F d_ff, P pieces of the vocabulary.
"""

import math
from collections.abc import Iterator
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
from transformer.model.substitutes import initialize_substitutes, substitute


def sinusoids(length: int, d_model: int) -> Tensor:
    """[length, d_model]: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) its cosine."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even_dimension = torch.arange(0, d_model, 2, dtype=torch.float64)
    frequency = 10000 ** (-even_dimension / d_model)
    angle = position * frequency
    pairs = torch.stack([angle.sin(), angle.cos()], dim=-1)
    return pairs.flatten(1).float()


class Positions(nn.Module):
    """A table [max_positions, d_model] added to the embeddings: fixed sinusoids, or learned.

    Sinusoids beyond the table are computed when a sentence needs them. The table itself stays in
    place, since recorded CUDA graphs read it.
    """

    table: Tensor

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.limit = model.longest_sequence
        self.longer: Tensor | None = None
        match model.positions:
            case "learned":
                self.table = nn.Parameter(torch.empty(model.max_positions, model.d_model))
                nn.init.normal_(self.table, std=model.d_model**-0.5)
            case "sinusoids":
                table = sinusoids(model.max_positions, model.d_model)
                self.register_buffer("table", table, persistent=False)
            case _:
                assert_never(model.positions)

    def forward(self, start: int, length: int) -> Tensor:
        """[length, d_model] for positions start … start + length − 1."""
        end = start + length
        if end <= len(self.table) or self.limit is not None:
            return self.table[start:end]
        return self._longer(end)[start:end]

    def _longer(self, end: int) -> Tensor:
        """Sinusoids of at least ``end`` positions, kept for the next sentences."""
        if self.longer is None or len(self.longer) < end:
            self.longer = sinusoids(2 * end, self.table.shape[1])
        self.longer = self.longer.to(self.table)
        return self.longer


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
    """Self-attention and feed-forward, each in a residual (section 3.1)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(model)
        self.attention_residual = Residual(model)
        self.feed_forward = FeedForward(model)
        self.feed_forward_residual = Residual(model)

    def forward(self, x_BSD: Tensor, mask: Mask) -> Tensor:
        attended, _ = self.attention(x_BSD, mask)
        x_BSD = self.attention_residual(x_BSD, attended)
        out_BSD: Tensor = self.feed_forward_residual(x_BSD, self.feed_forward(x_BSD))
        return out_BSD


class SubstituteLayer(nn.Module):
    """An encoder layer with recurrence or a convolution in the place of self-attention."""

    def __init__(self, model: ModelConfig, layer: int) -> None:
        super().__init__()
        self.substitute = substitute(model, layer)
        self.substitute_residual = Residual(model)
        self.feed_forward = FeedForward(model)
        self.feed_forward_residual = Residual(model)

    def forward(self, x_BSD: Tensor, pad_BS: Tensor | None) -> Tensor:
        x_BSD = self.substitute_residual(x_BSD, self.substitute(x_BSD, pad_BS))
        out_BSD: Tensor = self.feed_forward_residual(x_BSD, self.feed_forward(x_BSD))
        return out_BSD


def _encoder_layer(model: ModelConfig, layer: int) -> EncoderLayer | SubstituteLayer:
    """The encoder's layer number ``layer``, counted from 0."""
    if model.encoder_layer == "attention":
        return EncoderLayer(model)
    return SubstituteLayer(model, layer)


class DecoderLayer(nn.Module):
    """Self-attention, attention to the source, feed-forward, each in a residual (section 3.1)."""

    def __init__(self, model: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(model, causal=True)
        self.attention_residual = Residual(model)
        self.cross = CrossAttention(model)
        self.cross_residual = Residual(model)
        self.feed_forward = FeedForward(model)
        self.feed_forward_residual = Residual(model)

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
        self,
        x_BND: Tensor,
        memory: KeyValue,
        source_mask: Mask,
        past: KeyValue | None,
    ) -> tuple[Tensor, KeyValue]:
        """One position of N outputs of each source.

        The N outputs share the source's memory, and each sees only its own past. Returns the
        layer's output [B, N, D], and the keys and values [B·N, H, S, ·]: the next step's ``past``.
        """
        sequences = x_BND.flatten(0, 1)[:, None]  # [B·N, 1, D]
        attended, present = self.attention(sequences, None, past)
        out_BND = self._after_attention(x_BND, attended.view_as(x_BND), memory, source_mask)
        return out_BND, present

    def _after_attention(
        self,
        x_BTD: Tensor,
        attended: Tensor,
        memory: KeyValue,
        source_mask: Mask,
    ) -> Tensor:
        """The layer's output for its input and what self-attention made of it, both [B, T, D]."""
        x_BTD = self.attention_residual(x_BTD, attended)
        x_BTD = self.cross_residual(x_BTD, self.cross(x_BTD, memory, source_mask))
        out_BTD: Tensor = self.feed_forward_residual(x_BTD, self.feed_forward(x_BTD))
        return out_BTD


HEADS_GAIN = math.sqrt(0.5)
"""Gain on Glorot's scale for W^Q, W^K and W^V.

With a gain of 1, training starts more slowly (docs/log.md).
"""


@dataclass
class Cache:
    """What decoding the next piece reads: keys and values of the source and of the pieces so far.

    The lists have one entry per layer. The source's tensors are [B, …], one row per sentence; those
    of its N outputs are [B·N, …].
    """

    source_mask: Tensor | None
    source: list[KeyValue]
    target: list[KeyValue | None]
    length: int = 0

    def select(self, sentences: Tensor, outputs: Tensor) -> None:
        """Keep these rows of the sources and of the outputs, in this order."""
        if self.source_mask is not None:
            self.source_mask = self.source_mask.index_select(0, sentences)
        self.source = [_rows(memory, sentences) for memory in self.source]
        self.reorder(outputs)

    def reorder(self, outputs: Tensor) -> None:
        """Keep the rows ``outputs`` of the outputs, in this order; rows may repeat."""
        self.target = [memory and _rows(memory, outputs) for memory in self.target]


def _rows(memory: KeyValue, rows: Tensor) -> KeyValue:
    """These rows of the keys and values, in this order."""
    keys = memory.key_BHSK.index_select(0, rows)
    values = memory.value_BHSV.index_select(0, rows)
    return KeyValue(keys, values)


class Transformer(nn.Module):
    """Encoder–decoder with one matrix [P, D] for both embeddings and the projection to pieces."""

    def __init__(self, model: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config = model
        self.vocab_size = vocab_size
        self.embedding = nn.Parameter(torch.empty(vocab_size, model.d_model))
        self.source_positions = Positions(model)
        learned = model.positions == "learned"
        self.target_positions = Positions(model) if learned else self.source_positions
        self.encoder = nn.ModuleList(_encoder_layer(model, i) for i in range(model.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(model) for _ in range(model.n_layers))
        _initialize(self)

    def forward(
        self,
        source_BS: Tensor,
        target_BT: Tensor,
        source_padded: bool | None = None,
    ) -> Tensor:
        """Decoder output [B, T, D] for source pieces and the target pieces shifted right.

        ``source_padded`` says whether the source contains padding. None looks it up, which makes
        the host wait for a GPU.
        """
        source_mask = self._source_mask(source_BS, source_padded)
        encoded_BSD = self._encode(source_BS, source_mask)
        length = target_BT.shape[1]
        x_BTD = self._embed(target_BT, self.target_positions(0, length))
        target_mask: Mask = None  # a window hides later positions by itself
        if self.config.attention_window is None:
            # It hides padding, too, which comes last.
            target_mask = causal_mask(length, target_BT.device)
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            x_BTD = layer(x_BTD, layer.cross.memory(encoded_BSD), source_mask, target_mask)
        return x_BTD

    def logits(self, x_BTD: Tensor) -> Tensor:
        """Scores [..., P] of the next piece, before the softmax."""
        return F.linear(x_BTD, self.embedding)

    def start(self, source_BS: Tensor) -> Cache:
        """Encode source pieces, and return the cache for decoding from the first position."""
        source_mask = self._source_mask(source_BS)
        if source_mask is not None:
            # The weights may be converted to bfloat16, as in ``benchmarks.decoders``.
            source_mask = source_mask.to(self.embedding.dtype)
        encoded_BSD = self._encode(source_BS, source_mask)
        memories: list[KeyValue] = []
        target: list[KeyValue | None] = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            memory = layer.cross.memory(encoded_BSD)
            # Every decoding step would copy tensors that are not contiguous.
            keys = memory.key_BHSK.contiguous()
            values = memory.value_BHSV.contiguous()
            memories.append(KeyValue(keys, values))
            target.append(None)
        return Cache(source_mask, memories, target)

    def step(self, piece_BN: Tensor, cache: Cache) -> Tensor:
        """Logits [B, N, P] of the piece that follows each of the N outputs of a source.

        The cache grows by one position.
        """
        x_BND = self._embed(piece_BN, self.target_positions(cache.length, 1))
        for i, layer in enumerate(self.decoder):
            assert isinstance(layer, DecoderLayer)
            source, past = cache.source[i], cache.target[i]
            x_BND, cache.target[i] = layer.step(x_BND, source, cache.source_mask, past)
        cache.length += 1
        return self.logits(x_BND)

    def attentions(self) -> Iterator[SelfAttention | CrossAttention]:
        """Every attention of the model, the encoder's first."""
        for module in self.modules():
            if isinstance(module, SelfAttention | CrossAttention):
                yield module

    def _source_mask(self, source_BS: Tensor, padded: bool | None = None) -> Tensor | None:
        """The mask of the source's padding; None without padding, or if ``padded`` rules it out."""
        if padded is False:
            return None
        pad_BS = source_BS == PAD
        return padding_mask(pad_BS) if padded or pad_BS.any() else None

    def _encode(self, source_BS: Tensor, source_mask: Tensor | None) -> Tensor:
        """The encoder's output [B, S, D]."""
        x_BSD = self._embed(source_BS, self.source_positions(0, source_BS.shape[1]))
        if self.config.encoder_layer == "attention":
            padding = source_mask
        else:
            padding = None if source_mask is None else source_BS == PAD
        for layer in self.encoder:
            x_BSD = layer(x_BSD, padding)
        return x_BSD

    def _embed(self, pieces: Tensor, positions: Tensor) -> Tensor:
        """Embeddings times √d_model plus ``positions``, with dropout (sections 3.4, 5.4)."""
        embedded = F.embedding(pieces, self.embedding)
        x = torch.add(positions, embedded, alpha=math.sqrt(self.config.d_model))
        return dropout(x, self.config.p_drop, self.training)


@torch.no_grad()
def _initialize(model: Transformer) -> None:
    """Embeddings N(0, 1/d_model); every projection Glorot-uniform.

    Projections to heads have the gain ``HEADS_GAIN``. W^Q, W^K and W^V are parts of fused matrices,
    but each is drawn by its own shape; otherwise d_k would scale W^V.
    """
    nn.init.normal_(model.embedding, std=model.config.d_model**-0.5)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    initialize_substitutes(model)
    for attention in model.attentions():
        for weight, _ in attention.projections():
            nn.init.xavier_uniform_(weight, HEADS_GAIN)
        if attention.score_vector is not None:
            _initialize_score(attention.score_vector)


def _initialize_score(vector_HK: Tensor) -> None:
    """Each head's vector Glorot-uniform, as a projection from d_k to one logit."""
    bound = math.sqrt(6 / (vector_HK.shape[1] + 1))
    nn.init.uniform_(vector_HK, -bound, bound)
