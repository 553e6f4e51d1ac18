"""Batches of similar length under a token budget (section 5.1), in an order set by the seed."""

import copy
import math
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
from transformer.data.blocks import blocks_per_batch
from transformer.data.prepared import ParallelSet, Sentences
from transformer.data.vocabulary import BOS, PAD
from transformer.window import Window

Indices = npt.NDArray[np.int64]

EPOCHS_OF_SHAPES = 4
"""Epochs whose joined batches give the shapes. A later batch may be larger than all of them."""


class Shape(NamedTuple):
    """[sentences, source] and [sentences, target] of a batch, padding included."""

    sentences: int
    source: int
    target: int

    @property
    def cells(self) -> int:
        """Pieces and padding on both sides."""
        return self.sentences * (self.source + self.target)

    @property
    def longest(self) -> int:
        """The length of the longer side."""
        return max(self.source, self.target)


@dataclass(frozen=True)
class Batch:
    """One worker's micro-batch, with the totals of the whole batch.

    ``source`` [B, S] and ``target`` [B, T] end with end-of-sentence. ``shifted`` [B, T] is the
    decoder's input: beginning-of-sentence, then the target without its last piece. ``total`` [] is
    ``total_targets`` on the other tensors' device. ``source_padded`` says whether ``source`` has
    padding, so that no code has to wait for a GPU to look.
    """

    source: Tensor
    shifted: Tensor
    target: Tensor
    total: Tensor
    total_targets: int
    lengths: Lengths
    source_padded: bool

    def to(self, device: torch.device) -> "Batch":
        """The batch on ``device``.

        It reaches a GPU through pinned memory, so that the host doesn't wait for the copy.
        """
        if device.type == "cpu":
            return self
        pinned = (tensor.pin_memory() for tensor in self.tensors)
        return self.with_tensors(tensor.to(device, non_blocking=True) for tensor in pinned)

    @property
    def shape(self) -> Shape:
        """Sentences, and the padded length of each side."""
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
    """Batches of sentences in this order, cut where the next sentence would exceed the budget.

    The budget bounds sentences × longest side. A sentence above it gets its own batch.
    """
    batches: list[Indices] = []
    start = 0
    widest = 0
    for i, length in enumerate(pairs.longest_sides[order]):
        widest = max(widest, int(length))
        if i > start and (i - start + 1) * widest > tokens_per_batch:
            batches.append(order[start:i])
            start = i
            widest = int(length)
    if start < len(order):
        batches.append(order[start:])
    return batches


def by_length(pairs: ParallelSet, numbers: Indices, ties: Indices | None = None) -> Indices:
    """The sentence ``numbers`` sorted by (longest side, source, target).

    Neighbors then need the least padding. ``ties`` order pairs of equal lengths; by default they
    keep their order.
    """
    source = pairs.source.lengths[numbers]
    target = pairs.target.lengths[numbers]
    if ties is None:
        ties = np.arange(len(numbers))
    return numbers[np.lexsort((ties, target, source, np.maximum(source, target)))]


class TrainingBatches:
    """An endless sequence of batches that depends only on (seed, step), so a resume needs no state.

    A batch consists of blocks: lengths are similar within a block and differ between blocks. With
    one length per batch, every step would pull the model toward ending sentences at that length.
    The paper's batches came from eight GPUs, each with different lengths.

    Each epoch shuffles sentences of equal length among themselves, and then the blocks. Every step
    has the same weight, so an epoch's blocks are spread evenly over its batches, without a small
    last batch.
    """

    def __init__(
        self,
        pairs: ParallelSet,
        tokens_per_batch: int,
        max_positions: int,
        seed: int,
        longest: int | None = None,
        radius: int | None = None,
    ) -> None:
        self.pairs = pairs
        self.seed = seed
        self.radius = radius
        self.blocks_per_batch = blocks_per_batch(tokens_per_batch, max_positions)
        self.tokens_per_block = tokens_per_batch // self.blocks_per_batch
        limit = max_positions if longest is None else min(longest, max_positions)
        self.chosen: Indices = np.flatnonzero(pairs.longest_sides <= limit)
        self.dropped = len(pairs) - len(self.chosen)
        self.joins_blocks = False
        self._epoch = 0
        self._batches = self._shuffled(0)

    def joined(self) -> "TrainingBatches":
        """The same batches with all blocks of a step in one micro-batch.

        This costs more padding, but it needs only one pass.
        """
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
            self._epoch = epoch
            self._batches = self._shuffled(epoch)
        return self._batches[position]

    def indices(self, step: int) -> Indices:
        """Sentence numbers of step ``step``."""
        return np.concatenate(self.blocks(step))

    def shapes(self) -> list[Shape]:
        """Shapes of the micro-batches, ordered by length.

        They are the shapes of an epoch's blocks, which are the same in every epoch; or those of the
        joined batches of the first epochs.
        """
        if not self.joins_blocks:
            blocks = self._cut(by_length(self.pairs, self.chosen))
            return [self._shape(block) for block in blocks]
        shapes: list[Shape] = []
        for epoch in range(EPOCHS_OF_SHAPES):
            shapes += [self._shape(np.concatenate(blocks)) for blocks in self._shuffled(epoch)]
        return sorted(shapes, key=lambda shape: (shape.longest, shape.sentences))

    def _shape(self, indices: Indices) -> Shape:
        """The shape of a batch of these sentences."""
        source = self.pairs.source.lengths[indices]
        target = self.pairs.target.lengths[indices]
        return Shape(len(indices), int(source.max()), int(target.max()))

    def describe(self, step: int) -> str:
        """The batch of a step in words.

        Such as "batch 12 of 57 in epoch 3 (sentences 5, 81, 1002, ...)".
        """
        epoch, position = divmod(step - 1, len(self))
        first_numbers = ", ".join(map(str, self.indices(step)[:3]))
        batch = f"batch {position + 1} of {len(self)} in epoch {epoch + 1}"
        return f"{batch} (sentences {first_numbers}, ...)"

    def micro_batches(
        self,
        step: int,
        rank: int,
        world: int,
        tokens_per_micro_batch: int,
    ) -> list[Batch]:
        """Worker ``rank``'s share of step ``step``; ``world`` workers share the batch.

        A worker gets whole blocks if all workers get the same number of blocks, otherwise a share
        of every block. A micro-batch is the worker's part of one block, or of the joined blocks. It
        is split until sentences × longest side is at most ``tokens_per_micro_batch``.
        """
        blocks = self.blocks(step)
        totals = _lengths(self.pairs, self.indices(step), self.radius)
        if len(blocks) % world == 0:
            blocks = blocks[rank::world]
            rank, world = 0, 1
        if self.joins_blocks:
            blocks = [np.concatenate(blocks)]
        micro_batches: list[Batch] = []
        for block in blocks:
            for part, parts in self._parts(block, rank, world, tokens_per_micro_batch):
                micro_batches.append(collate(self.pairs, block, part, parts, totals))
        return micro_batches

    def _parts(
        self,
        block: Indices,
        rank: int,
        world: int,
        tokens_per_micro_batch: int,
    ) -> Iterator[tuple[int, int]]:
        """The parts of a block that are this worker's micro-batches: part i of n, as (i, n)."""
        longest = int(self.pairs.longest_sides[block].max())
        sentences = max(1, tokens_per_micro_batch // longest)
        micro_batches = math.ceil(len(block) / (world * sentences))
        for i in range(micro_batches):
            yield rank + world * i, world * micro_batches

    def _shuffled(self, epoch: int) -> list[list[Indices]]:
        """The batches of an epoch, each as its blocks."""
        random = np.random.default_rng([self.seed, epoch])
        ties = random.permutation(len(self.chosen))
        order = by_length(self.pairs, self.chosen, ties)
        blocks = self._cut(order)
        shuffled_blocks = [blocks[i] for i in random.permutation(len(blocks))]
        batches = math.ceil(len(blocks) / self.blocks_per_batch)
        starts = [len(blocks) * i // max(batches, 1) for i in range(batches + 1)]
        return [shuffled_blocks[start:end] for start, end in pairwise(starts)]

    def _cut(self, order: Indices) -> list[Indices]:
        """An epoch's blocks.

        Sentences of the last but one fill up the last block, until both are of similar size.
        """
        blocks = cut(self.pairs, order, self.tokens_per_block)
        if len(blocks) > 1:
            last_two = np.concatenate(blocks[-2:])
            longest = int(self.pairs.longest_sides[blocks[-1]].max())
            most_sentences = self.tokens_per_block // longest
            size = max(len(blocks[-1]), min(most_sentences, len(last_two) // 2))
            blocks[-2:] = np.split(last_two, [-size])
        return blocks


def evaluation_batches(
    pairs: ParallelSet,
    tokens_per_batch: int,
    rank: int = 0,
    world: int = 1,
) -> Iterator[tuple[Indices, Batch]]:
    """This worker's batches, with the numbers of their sentences in the set.

    Every sentence is in one batch of one worker.
    """
    order = by_length(pairs, np.arange(len(pairs)))
    for indices in cut(pairs, order, tokens_per_batch)[rank::world]:
        yield indices, collate(pairs, indices)


def collate(
    pairs: ParallelSet,
    indices: Indices,
    part: int = 0,
    parts: int = 1,
    totals: Lengths | None = None,
) -> Batch:
    """Padded tensors of the part ``indices[part::parts]``, which may be empty.

    ``totals`` default to those of ``indices``. Pass them if ``indices`` are a part of the batch.
    """
    totals = totals or _lengths(pairs, indices)
    numbers = indices[part::parts]
    source = pad(pairs.source, numbers)
    target = pad(pairs.target, numbers)
    shifted = target.roll(1, dims=1)
    shifted[:, :1] = BOS
    rolled_onto_padding = (target == PAD) & (shifted != BOS)  # these pieces are end-of-sentence
    shifted[rolled_onto_padding] = PAD
    source_padded = bool((pairs.source.lengths[numbers] < source.shape[1]).any())
    return Batch(
        source=source,
        shifted=shifted,
        target=target,
        total=torch.tensor(totals.target),
        total_targets=int(totals.target),
        lengths=totals,
        source_padded=source_padded,
    )


def _lengths(pairs: ParallelSet, indices: Indices, radius: int | None = None) -> Lengths:
    """The sums over these sentences; ``radius`` is that of the model's restricted attention."""
    source = pairs.source.lengths[indices]
    target = pairs.target.lengths[indices]
    n = source.astype(float)
    m = target.astype(float)
    lengths = Lengths(
        source=float(n.sum()),
        target=float(m.sum()),
        source_squared=float((n * n).sum()),
        target_squared=float((m * m).sum()),
        product=float((n * m).sum()),
        sentences=float(len(indices)),
    )
    if radius is None:
        return lengths
    source_windows = sum(map(Window(radius, causal=False).cells, source.tolist()))
    target_windows = sum(map(Window(radius, causal=True).cells, target.tolist()))
    return replace(
        lengths,
        source_windows=float(source_windows),
        target_windows=float(target_windows),
    )


def pad(sentences: Sentences, indices: Indices) -> Tensor:
    """[B, longest] piece ids of these sentences, padded at the end; int64."""
    lengths = sentences.lengths[indices][:, None]
    columns = np.arange(lengths.max(initial=0))
    starts = sentences.offsets[indices][:, None]
    places = np.minimum(starts + columns, len(sentences.pieces) - 1)
    padded = np.where(columns < lengths, sentences.pieces[places], PAD)
    return torch.from_numpy(padded.astype(np.int64))


T = TypeVar("T")

STEPS_AHEAD = 8
"""Steps whose batches are ready or in progress: enough to hide the shuffle of a new epoch."""


def prefetch(make: Callable[[int], T], steps: Iterable[int]) -> Generator[T, None, None]:
    """``make(step)`` for each step in order, computed in a thread while you use earlier results."""
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
