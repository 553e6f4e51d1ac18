"""Batches of similar length under a token budget (section 5.1), in an order that the seed decides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transformer.cost import Lengths
from transformer.data.pieces import BOS, PAD
from transformer.data.prepare import ParallelSet, Sentences

Indices = npt.NDArray[np.int64]


class Shape(NamedTuple):
    """[sentences, source] and [sentences, target] of a batch, padding included."""

    sentences: int
    source: int
    target: int

    @property
    def cells(self) -> int:
        return self.sentences * (self.source + self.target)


@dataclass(frozen=True)
class Batch:
    """What one worker passes through the model at once, and what the whole batch amounts to.

    ``source`` [B, S] and ``target`` [B, T] end with end-of-sentence; ``shifted`` [B, T] is what the decoder
    reads: beginning-of-sentence, then the target without its last piece. ``total`` [] is ``total_targets`` where the
    other tensors are, and ``source_padded`` is known here so that nobody has to ask a GPU.
    """

    source: Tensor
    shifted: Tensor
    target: Tensor
    total: Tensor
    total_targets: int
    lengths: Lengths
    source_padded: bool

    def to(self, device: torch.device) -> "Batch":
        """On ``device``; on its way to a GPU through pinned memory, so that nobody waits for the copy."""
        if device.type == "cpu":
            return self
        return self.with_tensors(part.pin_memory().to(device, non_blocking=True) for part in self.tensors)

    @property
    def shape(self) -> Shape:
        return Shape(len(self.target), self.source.shape[1], self.target.shape[1])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that a step reads on the device."""
        return self.source, self.shifted, self.target, self.total

    def with_tensors(self, tensors: Iterable[Tensor]) -> "Batch":
        """The same batch with these in place of ``tensors``."""
        source, shifted, target, total = tensors
        return replace(self, source=source, shifted=shifted, target=target, total=total)


def cut(pairs: ParallelSet, order: Indices, tokens_per_batch: int) -> list[Indices]:
    """Cut sentences in this order where sentences × longest side would pass the budget."""
    longest = pairs.longest_sides[order]
    batches, start, widest = [], 0, 0
    for i, length in enumerate(longest):
        widest = max(widest, int(length))
        if i > start and (i - start + 1) * widest > tokens_per_batch:
            batches.append(order[start:i])
            start, widest = i, int(length)
    return [*batches, order[start:]] if start < len(order) else batches


def by_length(pairs: ParallelSet, chosen: Indices, ties: Indices | None = None) -> Indices:
    """``chosen`` sorted by (longest side, source, target): neighbours waste the least padding."""
    source, target = pairs.source.lengths[chosen], pairs.target.lengths[chosen]
    ties = np.arange(len(chosen)) if ties is None else ties
    return chosen[np.lexsort((ties, target, source, np.maximum(source, target)))]


class TrainingBatches:
    """An endless sequence of batches that is a function of (seed, step) alone, so that a resume needs no state.

    Each epoch shuffles sentences of equal lengths among themselves, and the batches among themselves.
    """

    def __init__(self, pairs: ParallelSet, tokens_per_batch: int, max_positions: int, seed: int) -> None:
        self.pairs, self.tokens_per_batch, self.seed = pairs, tokens_per_batch, seed
        self.chosen: Indices = np.flatnonzero(pairs.longest_sides <= max_positions)
        self.dropped = len(pairs) - len(self.chosen)
        self._epoch, self._batches = -1, self._shuffled(0)

    def __len__(self) -> int:
        """Batches of one epoch."""
        return len(self._batches)

    def indices(self, step: int) -> Indices:
        """The sentences of step ``step``, counted from 1."""
        epoch, position = divmod(step - 1, len(self))
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffled(epoch)
        return self._batches[position]

    def shapes(self) -> list[Shape]:
        """Those of the whole batches of an epoch, of any one, in the order of their lengths."""
        epoch = cut(self.pairs, by_length(self.pairs, self.chosen), self.tokens_per_batch)
        sides = self.pairs.source.lengths, self.pairs.target.lengths
        return [Shape(len(indices), *(int(side[indices].max()) for side in sides)) for indices in epoch]

    def describe(self, step: int) -> str:
        """Which batch a step takes, such as "batch 12 of 57 in epoch 3 (sentences 5, 81, 1002, ...)"."""
        epoch, position = divmod(step - 1, len(self))
        some = ", ".join(map(str, self.indices(step)[:3]))
        return f"batch {position + 1} of {len(self)} in epoch {epoch + 1} (sentences {some}, ...)"

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Worker ``rank``'s share of step ``step``; the shares of all ``world`` workers make up the batch."""
        return collate(self.pairs, self.indices(step), rank, world)

    def passes(self, step: int, rank: int, world: int, tokens_per_pass: int) -> list[Batch]:
        """The same share in as few passes as hold sentences × longest side within ``tokens_per_pass``."""
        indices = self.indices(step)
        longest = int(self.pairs.longest_sides[indices].max())
        sentences = world * max(1, tokens_per_pass // longest)  # what all workers pass through at once
        passes = -(-len(indices) // sentences)
        return [collate(self.pairs, indices, rank + world * i, world * passes) for i in range(passes)]

    def _shuffled(self, epoch: int) -> list[Indices]:
        random = np.random.default_rng([self.seed, epoch])
        ties = random.permutation(len(self.chosen))
        batches = cut(self.pairs, by_length(self.pairs, self.chosen, ties), self.tokens_per_batch)
        return [batches[i] for i in random.permutation(len(batches))]


def judging_batches(
    pairs: ParallelSet, tokens_per_batch: int, rank: int = 0, world: int = 1
) -> Iterator[tuple[Indices, Batch]]:
    """Every sentence once, over all workers, with its place in the set."""
    order = by_length(pairs, np.arange(len(pairs)))
    for indices in cut(pairs, order, tokens_per_batch)[rank::world]:
        yield indices, collate(pairs, indices)


def collate(pairs: ParallelSet, indices: Indices, rank: int = 0, world: int = 1) -> Batch:
    """Padded tensors of the share ``indices[rank::world]``, which may be empty."""
    source_lengths = pairs.source.lengths[indices].astype(float)
    target_lengths = pairs.target.lengths[indices].astype(float)
    lengths = Lengths(
        float(source_lengths.sum()),
        float(target_lengths.sum()),
        float((source_lengths**2).sum()),
        float((target_lengths**2).sum()),
        float((source_lengths * target_lengths).sum()),
    )
    share = indices[rank::world]
    source, target = pad(pairs.source, share), pad(pairs.target, share)
    shifted = target.roll(1, dims=1)
    shifted[:, :1] = BOS
    shifted[(target == PAD) & (shifted != BOS)] = PAD  # what rolled onto padding is the end-of-sentence piece
    source_padded = bool((pairs.source.lengths[share] < source.shape[1]).any())
    return Batch(source, shifted, target, torch.tensor(lengths.target), int(lengths.target), lengths, source_padded)


def pad(sentences: Sentences, indices: Indices) -> Tensor:
    """[B, longest] piece ids, padded at the end."""
    lengths = sentences.lengths[indices][:, None]
    columns = np.arange(lengths.max(initial=0))
    places = np.minimum(sentences.offsets[indices][:, None] + columns, len(sentences.pieces) - 1)
    return torch.from_numpy(np.where(columns < lengths, sentences.pieces[places], PAD).astype(np.int64))
