"""The positions that restricted self-attention reads, chunk by chunk (section 4, Table 1).

The model computes these chunks, and ``cost`` counts them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import NamedTuple

SMALLEST_CHUNK = 16
"""Queries of a chunk, at least: matmuls of fewer rows take as long."""


class Chunk(NamedTuple):
    """Neighboring queries, and every key that one of them may read."""

    queries: slice
    keys: slice


@dataclass(frozen=True)
class Window:
    """Position i reads every position up to ``radius`` away; no later one if it is ``causal``."""

    radius: int
    causal: bool

    def covers(self, length: int) -> bool:
        """Whether the window leaves out no position of a sequence."""
        return self.radius >= length - 1

    def chunks(self, length: int) -> Iterator[Chunk]:
        """The chunks of a sequence; one chunk holds a sequence that the window covers.

        A chunk has max(radius, ``SMALLEST_CHUNK``) queries, and at most three times as many keys.
        So below a radius of 16 more is computed than each query's own window, and ``cost`` counts
        it.
        """
        size = max(self.radius, SMALLEST_CHUNK)
        if self.covers(length):
            size = max(length, 1)
        for start in range(0, length, size):
            end = min(start + size, length)
            last_key = end if self.causal else min(end + self.radius, length)
            yield Chunk(slice(start, end), slice(max(0, start - self.radius), last_key))

    def cells(self, length: float) -> float:
        """Queries × keys of all chunks; between two whole lengths, in proportion."""
        shorter = floor(length)
        longer = ceil(length)
        cells = _cells(self, shorter)
        return cells + (length - shorter) * (_cells(self, longer) - cells)


@lru_cache(maxsize=10_000)
def _cells(window: Window, length: int) -> int:
    cells = 0
    for queries, keys in window.chunks(length):
        cells += (queries.stop - queries.start) * (keys.stop - keys.start)
    return cells
