"""Batches of similar length under a token budget (section 5.1), in an order set by the seed, prefetched."""

import copy
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transformer.cost import Lengths
from transformer.data.prepared import ParallelSet, Sentences
from transformer.data.vocabulary import BOS, PAD

Indices = npt.NDArray[np.int64]

MOST_BLOCKS = 8
SMALLEST_BLOCK = 1_000
"""Fewest tokens per block: in smaller ones, a micro-batch's fixed cost would outweigh the gain of mixed lengths."""
SMALLEST_OF_TWO = 250
"""The same for a batch of only two blocks: a single one has a single length, and learns far less per step."""


EPOCHS_OF_SHAPES = 4
"""Epochs whose joined batches give the shapes. A later batch may be larger than all of them."""


class Shape(NamedTuple):
    """[sentences, source] and [sentences, target] of a batch, padding included."""

    sentences: int
    source: int
    target: int

    @property
    def cells(self) -> int:
        return self.sentences * (self.source + self.target)

    @property
    def longest(self) -> int:
        return max(self.source, self.target)


@dataclass(frozen=True)
class Batch:
    """One worker's micro-batch, with the totals of the whole batch.

    ``source`` [B, S] and ``target`` [B, T] end with end-of-sentence; ``shifted`` [B, T] is the decoder's
    input: beginning-of-sentence, then the target without its last piece. ``total`` [] is ``total_targets`` on the
    other tensors' device. ``source_padded`` is stored so that no code has to wait for a GPU to find out.
    """

    source: Tensor
    shifted: Tensor
    target: Tensor
    total: Tensor
    total_targets: int
    lengths: Lengths
    source_padded: bool

    def to(self, device: torch.device) -> "Batch":
        """On ``device``; copied to a GPU through pinned memory, so that the host does not wait for the copy."""
        if device.type == "cpu":
            return self
        return self.with_tensors(part.pin_memory().to(device, non_blocking=True) for part in self.tensors)

    @property
    def shape(self) -> Shape:
        return Shape(len(self.target), self.source.shape[1], self.target.shape[1])

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that a step reads on the device."""
        return self.source, self.shifted, self.target, self.total

    def with_tensors(self, tensors: Iterable[Tensor]) -> "Batch":
        """The same batch with its tensors replaced by these."""
        source, shifted, target, total = tensors
        return replace(self, source=source, shifted=shifted, target=target, total=total)


def cut(pairs: ParallelSet, order: Indices, tokens_per_batch: int) -> list[Indices]:
    """Batches of sentences in this order, cut where sentences × longest side would exceed the budget."""
    longest = pairs.longest_sides[order]
    batches, start, widest = [], 0, 0
    for i, length in enumerate(longest):
        widest = max(widest, int(length))
        if i > start and (i - start + 1) * widest > tokens_per_batch:
            batches.append(order[start:i])
            start, widest = i, int(length)
    return [*batches, order[start:]] if start < len(order) else batches


def by_length(pairs: ParallelSet, chosen: Indices, ties: Indices | None = None) -> Indices:
    """``chosen`` sorted by (longest side, source, target): neighbors need the least padding."""
    source, target = pairs.source.lengths[chosen], pairs.target.lengths[chosen]
    ties = np.arange(len(chosen)) if ties is None else ties
    return chosen[np.lexsort((ties, target, source, np.maximum(source, target)))]


def _blocks_per_batch(tokens_per_batch: int, max_positions: int) -> int:
    """The longest pair must fit into each."""
    blocks = min(MOST_BLOCKS, tokens_per_batch // SMALLEST_BLOCK)
    if blocks < 2 and tokens_per_batch >= 2 * SMALLEST_OF_TWO:
        blocks = 2
    holding_longest_pair = tokens_per_batch // max_positions
    return max(1, min(blocks, holding_longest_pair))


class TrainingBatches:
    """An endless sequence of batches that depends only on (seed, step), so a resume needs no state.

    A batch consists of blocks: lengths are similar within a block and differ between blocks. With one length per batch,
    every step would pull the model toward ending sentences at that length. The paper's batches came from eight GPUs,
    each with different lengths. Each epoch shuffles sentences of equal length among themselves, and then the blocks.
    Every step has the same weight, so an epoch's blocks are spread evenly over its batches; no batch is a remainder.
    """

    def __init__(self, pairs: ParallelSet, tokens_per_batch: int, max_positions: int, seed: int) -> None:
        self.pairs, self.seed = pairs, seed
        self.blocks_per_batch = _blocks_per_batch(tokens_per_batch, max_positions)
        self.tokens_per_block = tokens_per_batch // self.blocks_per_batch
        self.chosen: Indices = np.flatnonzero(pairs.longest_sides <= max_positions)
        self.dropped = len(pairs) - len(self.chosen)
        self.joins_blocks = False
        self._epoch = 0
        self._batches = self._shuffled(0)

    def joined(self) -> "TrainingBatches":
        """The same batches, with all blocks of a step in one micro-batch: more padding, but a single pass."""
        batches = copy.copy(self)
        batches.joins_blocks = True
        return batches

    def __len__(self) -> int:
        """Batches of one epoch."""
        return len(self._batches)

    def blocks(self, step: int) -> list[Indices]:
        """Sentence numbers of each block of step ``step``, counted from 1."""
        epoch, position = divmod(step - 1, len(self))
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffled(epoch)
        return self._batches[position]

    def indices(self, step: int) -> Indices:
        """Sentence numbers of step ``step``."""
        return np.concatenate(self.blocks(step))

    def shapes(self) -> list[Shape]:
        """Shapes of the micro-batches, ordered by length: of an epoch's blocks, which every epoch has, or of the
        joined batches of the first epochs."""
        if not self.joins_blocks:
            return [self._shape(block) for block in self._cut(by_length(self.pairs, self.chosen))]
        epochs = [self._shuffled(epoch) for epoch in range(EPOCHS_OF_SHAPES)]
        joined = [self._shape(np.concatenate(blocks)) for epoch in epochs for blocks in epoch]
        return sorted(joined, key=lambda shape: (shape.longest, shape.sentences))

    def _shape(self, indices: Indices) -> Shape:
        source, target = self.pairs.source.lengths[indices], self.pairs.target.lengths[indices]
        return Shape(len(indices), int(source.max()), int(target.max()))

    def describe(self, step: int) -> str:
        """The batch of a step in words, such as "batch 12 of 57 in epoch 3 (sentences 5, 81, 1002, ...)"."""
        epoch, position = divmod(step - 1, len(self))
        some = ", ".join(map(str, self.indices(step)[:3]))
        return f"batch {position + 1} of {len(self)} in epoch {epoch + 1} (sentences {some}, ...)"

    def micro_batches(self, step: int, rank: int, world: int, tokens_per_micro_batch: int) -> list[Batch]:
        """Worker ``rank``'s share of step ``step``; the shares of all ``world`` workers make up the batch.

        A worker gets whole blocks if all workers get the same number, otherwise a share of every block. A micro-batch
        is its part of one block, or of the joined blocks, split until sentences × longest side stays within
        ``tokens_per_micro_batch``.
        """
        blocks = self.blocks(step)
        totals = _lengths(self.pairs, self.indices(step))
        if len(blocks) % world == 0:
            blocks, rank, world = blocks[rank::world], 0, 1
        if self.joins_blocks:
            blocks = [np.concatenate(blocks)]
        return [
            collate(self.pairs, block, part, parts, totals)
            for block in blocks
            for part, parts in self._parts(block, rank, world, tokens_per_micro_batch)
        ]

    def _parts(self, block: Indices, rank: int, world: int, tokens_per_micro_batch: int) -> Iterator[tuple[int, int]]:
        longest = int(self.pairs.longest_sides[block].max())
        sentences = world * max(1, tokens_per_micro_batch // longest)  # in one micro-batch on every worker
        micro_batches = -(-len(block) // sentences)
        for i in range(micro_batches):
            yield rank + world * i, world * micro_batches

    def _shuffled(self, epoch: int) -> list[list[Indices]]:
        random = np.random.default_rng([self.seed, epoch])
        ties = random.permutation(len(self.chosen))
        blocks = self._cut(by_length(self.pairs, self.chosen, ties))
        order, batches = random.permutation(len(blocks)), -(-len(blocks) // self.blocks_per_batch)
        starts = [len(blocks) * i // max(batches, 1) for i in range(batches + 1)]
        return [[blocks[i] for i in order[start:end]] for start, end in pairwise(starts)]

    def _cut(self, order: Indices) -> list[Indices]:
        """An epoch's blocks; the last is filled with sentences of the one before, until both are of similar size."""
        blocks = cut(self.pairs, order, self.tokens_per_block)
        if len(blocks) > 1:
            last, both = blocks[-1], np.concatenate(blocks[-2:])
            most = self.tokens_per_block // int(self.pairs.longest_sides[last].max())
            blocks[-2:] = np.split(both, [-max(len(last), min(most, len(both) // 2))])
        return blocks


def evaluation_batches(
    pairs: ParallelSet, tokens_per_batch: int, rank: int = 0, world: int = 1
) -> Iterator[tuple[Indices, Batch]]:
    """Every sentence once, over all workers, with its number in the set."""
    order = by_length(pairs, np.arange(len(pairs)))
    for indices in cut(pairs, order, tokens_per_batch)[rank::world]:
        yield indices, collate(pairs, indices)


def collate(
    pairs: ParallelSet, indices: Indices, part: int = 0, parts: int = 1, totals: Lengths | None = None
) -> Batch:
    """Padded tensors of the part ``indices[part::parts]``, which may be empty; ``totals`` default to those of
    ``indices``; pass them if ``indices`` is only a part of the batch."""
    totals = totals or _lengths(pairs, indices)
    mine = indices[part::parts]
    source, target = pad(pairs.source, mine), pad(pairs.target, mine)
    shifted = target.roll(1, dims=1)
    shifted[:, :1] = BOS
    shifted[(target == PAD) & (shifted != BOS)] = PAD  # the piece that rolled onto padding is end-of-sentence
    source_padded = bool((pairs.source.lengths[mine] < source.shape[1]).any())
    return Batch(source, shifted, target, torch.tensor(totals.target), int(totals.target), totals, source_padded)


def _lengths(pairs: ParallelSet, indices: Indices) -> Lengths:
    n, m = (side.lengths[indices].astype(float) for side in (pairs.source, pairs.target))
    return Lengths(*(float(sums.sum()) for sums in (n, m, n * n, m * m, n * m)))


def pad(sentences: Sentences, indices: Indices) -> Tensor:
    """[B, longest] piece ids, padded at the end."""
    lengths = sentences.lengths[indices][:, None]
    columns = np.arange(lengths.max(initial=0))
    places = np.minimum(sentences.offsets[indices][:, None] + columns, len(sentences.pieces) - 1)
    return torch.from_numpy(np.where(columns < lengths, sentences.pieces[places], PAD).astype(np.int64))


T = TypeVar("T")

STEPS_AHEAD = 8
"""Steps whose batches are ready or in the making: enough to hide the shuffle at the start of an epoch."""


def prefetch(make: Callable[[int], T], steps: Iterable[int]) -> Generator[T, None, None]:
    """``make(step)`` for each step, in order, computed in a thread while earlier results are used."""
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        waiting: deque[Future[T]] = deque()
        try:
            for step in steps:
                waiting.append(thread.submit(make, step))
                if len(waiting) == STEPS_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)
