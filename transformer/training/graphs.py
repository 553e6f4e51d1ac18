"""Forward and backward recorded as CUDA graphs, one per shape.

Small models spend their time on kernel launches, and a graph needs only one launch. A few shapes
serve many batches: each batch is padded up to the smallest bucket that holds it.

Two inputs change at every step. Each batch is copied into the graph's own batch. At each replay
torch writes the generator's seed and offset where the graph's dropout reads them.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from transformer.data.batches import Batch, Shape
from transformer.data.vocabulary import EOS, PAD

ForwardBackward = Callable[[Batch], Tensor]
"""Adds to the gradients and returns the loss. It neither waits for the device nor seeds it."""


class CapturedForwardBackward:
    """Forward and backward, recorded once per shape in ``shapes`` and then replayed.

    Batches of any other shape run eagerly. The first batch of a shape also runs eagerly, on the
    recording stream, where libraries choose kernels and allocate memory. From then on the gradients
    must stay in place and be zeroed in place. All graphs share one memory pool: no two run at once,
    and the loss is copied before the next one starts.
    """

    def __init__(self, run: ForwardBackward, shapes: Collection[Shape]) -> None:
        self.run = run
        self.shapes = frozenset(shapes)
        self.warm: set[Shape] = set()
        self.graphs: dict[Shape, _Graph] = {}
        self.stream = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Batch) -> Tensor:
        shape = batch.shape
        if shape not in self.shapes:
            return self.run(batch)
        if shape not in self.warm:
            self.warm.add(shape)
            return self._on_recording_stream(batch)
        if shape not in self.graphs:
            self.graphs[shape] = _Graph(self.run, batch, self.stream, self.pool)
        return self.graphs[shape](batch)

    def _on_recording_stream(self, batch: Batch) -> Tensor:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = self.run(batch)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss


class _Graph:
    """One recording, with the batch that it reads and the loss that it writes."""

    def __init__(
        self,
        run: ForwardBackward,
        batch: Batch,
        stream: torch.cuda.Stream,
        pool: Any,
    ) -> None:
        self.batch = batch.with_tensors(tensor.clone() for tensor in batch.tensors)
        self.graph = torch.cuda.CUDAGraph()
        # Another thread pins and copies the next batches meanwhile, so only this thread's
        # errors may end the recording.
        recording = torch.cuda.graph(
            self.graph,
            pool=pool,
            stream=stream,
            capture_error_mode="thread_local",
        )
        with recording:
            self.loss = run(self.batch)

    def __call__(self, batch: Batch) -> Tensor:
        for graph_input, tensor in zip(self.batch.tensors, batch.tensors, strict=True):
            graph_input.copy_(tensor)
        self.graph.replay()
        return self.loss.clone()


MOST_BUCKETS = 32
RUNS = 512
"""A long epoch is cut into this many runs of neighbors, which bounds the search for buckets."""

Integers = npt.NDArray[np.int64]


def buckets(shapes: Sequence[Shape], most: int = MOST_BUCKETS) -> list[Shape]:
    """At most ``most`` shapes that hold all of ``shapes``, so that an epoch has the fewest cells.

    ``shapes`` are an epoch's shapes ordered by length, so neighbors are similar. Each bucket covers
    a run of neighbors.
    """
    n_runs = min(len(shapes), RUNS)
    cuts = np.unique(np.linspace(0, len(shapes), n_runs + 1).astype(int))
    largest = np.maximum.reduceat(np.array(shapes), cuts[:-1])
    cells = _cells(np.diff(cuts), largest)
    starts = _cheapest_starts(cells, most)
    bounds = pairwise([*starts, len(largest)])
    return [_largest_shape(largest[start:end]) for start, end in bounds]


def _largest_shape(shapes: Integers) -> Shape:
    """The smallest shape that holds every row of ``shapes`` [runs, 3]."""
    sentences, source, target = shapes.max(0)
    return Shape(int(sentences), int(source), int(target))


def into_bucket(batch: Batch, buckets: Sequence[Shape]) -> Batch:
    """The batch padded up to the smallest bucket that holds it, or unchanged if none does."""
    large_enough = [bucket for bucket in buckets if _fits(batch.shape, bucket)]
    if not large_enough:
        return batch
    smallest = min(large_enough, key=lambda bucket: bucket.cells)
    return pad_up(batch, smallest)


def _fits(shape: Shape, bucket: Shape) -> bool:
    """Whether the bucket is at least as large in every dimension."""
    return all(size <= limit for size, limit in zip(shape, bucket, strict=True))


def pad_up(batch: Batch, shape: Shape) -> Batch:
    """The batch with added rows and columns of padding. Loss and gradients stay the same.

    The source of a padding row is end-of-sentence, since attention over no position is NaN.
    """
    source = _filled_up(batch.source, shape.sentences, shape.source)
    source[len(batch.source) :, 0] = EOS
    shifted = _filled_up(batch.shifted, shape.sentences, shape.target)
    target = _filled_up(batch.target, shape.sentences, shape.target)
    return replace(batch, source=source, shifted=shifted, target=target, source_padded=True)


def _filled_up(pieces: Tensor, rows: int, columns: int) -> Tensor:
    """``pieces`` [B, L] in the corner of [rows, columns]; the other cells are padding."""
    filled = pieces.new_full((rows, columns), PAD)
    filled[: len(pieces), : pieces.shape[1]] = pieces
    return filled


def _cells(counts: Integers, largest: Integers) -> npt.NDArray[np.float64]:
    """[i, j]: source and target cells of runs i … j in one bucket; infinite where i > j."""
    cells = np.full((len(counts), len(counts)), np.inf)
    for i in range(len(counts)):
        sentences, source, target = np.maximum.accumulate(largest[i:]).T
        cells[i, i:] = sentences * (source + target) * counts[i:].cumsum()
    return cells


def _cheapest_starts(cells: npt.NDArray[np.float64], most: int) -> list[int]:
    """Starts of at most ``most`` buckets with the fewest cells in total, by dynamic programming.

    Entry j of ``fewest`` is about runs 0 … j. Round n of the loop allows n + 1 buckets.
    """
    fewest = cells[0]
    start_of_last = [np.zeros(len(cells), dtype=int)]
    for _ in range(1, min(most, len(cells))):
        split = fewest[:-1, None] + cells[1:]  # [i, j]: the last bucket holds runs i + 1 … j
        fewest_with_split = split.min(0)
        start_with_split = split.argmin(0) + 1
        improves = fewest_with_split < fewest
        start_of_last.append(np.where(improves, start_with_split, start_of_last[-1]))
        fewest = np.minimum(fewest_with_split, fewest)
    starts = list[int]()
    end = len(cells)
    for start in reversed(start_of_last):
        if end == 0:
            break
        end = int(start[end - 1])
        starts.append(end)
    return starts[::-1]
