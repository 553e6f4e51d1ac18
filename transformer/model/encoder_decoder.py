"""The whole model: shared embedding, encoder, decoder (sections 3.1 and 3.4).

Shape suffixes: B batch, S source, T target, D d_model, P pieces of the vocabulary.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer.config import ModelConfig
from transformer.data.pieces import PAD
from transformer.model.attention import KeyValue, causal_mask, padding_mask
from transformer.model.blocks import DecoderLayer, EncoderLayer
from transformer.model.dropout import dropout
from transformer.model.positions import Positions


@dataclass
class Cache:
    """What decoding one more piece reads: keys and values of the source and of the pieces so far."""

    source_mask: Tensor | None
    source: list[KeyValue]
    target: list[KeyValue | None]
    length: int = 0

    def select(self, rows: Tensor) -> "Cache":
        """The cache of the batch rows ``rows``, in their order; a row may be taken more than once."""

        def pick(memory: KeyValue | None) -> KeyValue | None:
            return memory and KeyValue(*(part.index_select(0, rows) for part in memory))

        mask = None if self.source_mask is None else self.source_mask.index_select(0, rows)
        source = [KeyValue(*(part.index_select(0, rows) for part in memory)) for memory in self.source]
        return Cache(mask, source, [pick(memory) for memory in self.target], self.length)

    def reorder(self, rows: Tensor) -> None:
        """As ``select``, in place, where each row stays within its sentence, so that the source stays as it is."""
        self.target = [memory and KeyValue(*(part.index_select(0, rows) for part in memory)) for memory in self.target]


class Transformer(nn.Module):
    """Encoder–decoder whose one matrix [P, D] embeds both languages and projects to the pieces."""

    def __init__(self, model: ModelConfig, vocab_size: int) -> None:
        super().__init__()
        self.config, self.vocab_size = model, vocab_size
        self.embedding = nn.Parameter(torch.empty(vocab_size, model.d_model))
        self.source_positions = Positions(model)
        self.target_positions = Positions(model) if model.positions == "learned" else self.source_positions
        self.encoder = nn.ModuleList(EncoderLayer(model) for _ in range(model.n_layers))
        self.decoder = nn.ModuleList(DecoderLayer(model) for _ in range(model.n_layers))
        _initialise(self)

    def forward(self, source_BS: Tensor, target_BT: Tensor, source_padded: bool | None = None) -> Tensor:
        """Decoder output [B, T, D] for source pieces and the target pieces shifted right.

        Who knows whether the source holds padding says so; else it is looked up, for which a GPU has to be waited for.
        """
        source_mask = self._source_mask(source_BS, source_padded)
        encoded_BSD = self._encode(source_BS, source_mask)
        x_BTD = self._embed(target_BT, self.target_positions(0, target_BT.shape[1]))
        mask = causal_mask(target_BT.shape[1], target_BT.device)  # padding stands last: causality hides it
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            x_BTD, _ = layer(x_BTD, layer.cross.memory(encoded_BSD), source_mask, mask)
        return x_BTD

    def logits(self, x_BTD: Tensor) -> Tensor:
        """Scores [..., P] of the next piece, before the softmax."""
        return F.linear(x_BTD, self.embedding)

    def start(self, source_BS: Tensor) -> Cache:
        """Encode source pieces, and make ready to decode from the first position."""
        source_mask = self._source_mask(source_BS)
        encoded_BSD = self._encode(source_BS, source_mask)
        memories = []
        for layer in self.decoder:
            assert isinstance(layer, DecoderLayer)
            memories.append(layer.cross.memory(encoded_BSD))
        return Cache(source_mask, memories, [None] * len(memories))

    def step(self, piece_B: Tensor, cache: Cache) -> Tensor:
        """Logits [B, P] of the piece after ``piece_B``; the cache grows by one position."""
        x_BTD = self._embed(piece_B[:, None], self.target_positions(cache.length, 1))
        for i, layer in enumerate(self.decoder):
            x_BTD, cache.target[i] = layer(x_BTD, cache.source[i], cache.source_mask, None, cache.target[i])
        cache.length += 1
        return self.logits(x_BTD[:, 0])

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


def _initialise(model: Transformer) -> None:
    """Embeddings N(0, 1/d_model); every projection Glorot-uniform, the fused ones of attention as one matrix.

    That makes W^Q, W^K and W^V smaller than Glorot's of each alone would be, and training start faster.
    """
    nn.init.normal_(model.embedding, std=model.config.d_model**-0.5)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
