"""Forward and backward recorded as CUDA graphs, one per shape: small models wait for launches, and a graph needs one.

Few shapes serve many batches: a batch is padded up to the bucket that holds it. The inputs that change per step come
from outside: each batch is copied into the graph's batch, and at each replay torch writes the generator's seed and
offset where the graph's dropout reads them.
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
"""Forward and backward: adds to the gradients and returns the loss. It neither waits for the device nor seeds it."""


class CapturedForwardBackward:
    """Forward and backward, recorded for each of ``shapes`` and then replayed; batches of other shapes run eagerly.

    The first batch of a shape also runs eagerly, on the recording stream, where libraries choose kernels and allocate
    memory. From then on the gradients must stay in place and be zeroed in place. All graphs share one memory pool: no
    two run at once, and the loss is copied before the next one starts.
    """

    def __init__(self, run: ForwardBackward, shapes: Collection[Shape]) -> None:
        self.run, self.shapes = run, frozenset(shapes)
        self.warm: set[Shape] = set()
        self.graphs: dict[Shape, _Graph] = {}
        self.stream, self.pool = torch.cuda.Stream(), torch.cuda.graph_pool_handle()

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

    def __init__(self, run: ForwardBackward, batch: Batch, stream: torch.cuda.Stream, pool: Any) -> None:
        self.batch = batch.with_tensors(part.clone() for part in batch.tensors)
        self.graph = torch.cuda.CUDAGraph()
        # Only this thread's errors count: another thread pins and copies the next batches, which must stay allowed.
        with torch.cuda.graph(self.graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            self.loss = run(self.batch)

    def __call__(self, batch: Batch) -> Tensor:
        for own, given in zip(self.batch.tensors, batch.tensors, strict=True):
            own.copy_(given)
        self.graph.replay()
        return self.loss.clone()


MOST_BUCKETS = 32
RUNS = 512
"""Runs of neighbors that a long epoch is cut into before the search for the best buckets; this bounds its cost."""

Integers = npt.NDArray[np.int64]


def buckets(shapes: Sequence[Shape], most: int = MOST_BUCKETS) -> list[Shape]:
    """At most ``most`` shapes that hold all of ``shapes``, chosen so that an epoch has the fewest cells.

    ``shapes`` are an epoch's shapes ordered by length, so neighbors are similar. Each bucket covers a run of neighbors.
    """
    cuts = np.unique(np.linspace(0, len(shapes), min(len(shapes), RUNS) + 1).astype(int))
    largest = np.maximum.reduceat(np.array(shapes), cuts[:-1])
    starts = _cheapest_starts(_cells(np.diff(cuts), largest), most)
    return [Shape(*map(int, largest[start:end].max(0))) for start, end in pairwise([*starts, len(largest)])]


def into_bucket(batch: Batch, buckets: Sequence[Shape]) -> Batch:
    """The batch padded up to the smallest bucket that holds it, or unchanged if none does."""
    holding = [shape for shape in buckets if all(mine <= its for mine, its in zip(batch.shape, shape, strict=True))]
    return pad_up(batch, min(holding, key=lambda shape: shape.cells)) if holding else batch


def pad_up(batch: Batch, shape: Shape) -> Batch:
    """The batch with added rows and columns of padding, which change neither its loss nor its gradients.

    The source of a padding row is end-of-sentence, since attention over no position is NaN.
    """
    source = _filled_up(batch.source, shape.sentences, shape.source)
    source[len(batch.source) :, 0] = EOS
    shifted, target = (_filled_up(part, shape.sentences, shape.target) for part in (batch.shifted, batch.target))
    return replace(batch, source=source, shifted=shifted, target=target, source_padded=True)


def _filled_up(pieces: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
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
    """Starts of at most ``most`` buckets with the fewest cells in total; by dynamic programming."""
    fewest, start_of_last = cells[0], [np.zeros(len(cells), dtype=int)]  # of runs 0 … j, in one bucket
    for _ in range(1, min(most, len(cells))):
        split = fewest[:-1, None] + cells[1:]  # [i, j]: the last bucket holds runs i + 1 … j
        start_of_last.append(np.where(split.min(0) < fewest, split.argmin(0) + 1, start_of_last[-1]))
        fewest = np.minimum(split.min(0), fewest)
    starts = [len(cells)]
    for start in reversed(start_of_last):
        if starts[0]:
            starts.insert(0, int(start[starts[0] - 1]))
    return starts[:-1]
