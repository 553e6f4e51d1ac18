"""Few shapes for many batches, so that each can have a CUDA graph: a batch is padded up to the bucket that holds it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

from transformer.data.batches import Batch, Shape
from transformer.data.pieces import EOS, PAD

MOST = 32
RUNS = 512
"""Runs of neighbors that a long epoch is cut into before the search for the best buckets; this bounds its cost."""

Numbers = npt.NDArray[np.int64]


def buckets(shapes: Sequence[Shape], most: int = MOST) -> list[Shape]:
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


def _cells(counts: Numbers, largest: Numbers) -> npt.NDArray[np.float64]:
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
