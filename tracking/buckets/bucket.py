"""A bucket: the samples of a set whose quantity lies between two ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracking.buckets.quantity import Quantity, UngroupedError
from tracking.statistics.samples import Floats

USUAL_NUMBER = 4
"""As many buckets as fit next to each other in a table."""


@dataclass(frozen=True, eq=False)
class Bucket:
    """``low`` and ``high`` are the least and the largest value of its samples."""

    low: float
    high: float
    is_inside_N: npt.NDArray[np.bool_]

    @property
    def samples(self) -> int:
        return int(self.is_inside_N.sum())

    @property
    def label(self) -> str:
        """Such as 4–10."""
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}–{self.high:g}"


def buckets(quantity: Quantity, cuts: Sequence[float] = ()) -> tuple[Bucket, ...]:
    """The buckets that end at each cut, and the one above the last cut. A value that equals a cut
    lies below it. Without cuts, there are up to four buckets with as equal numbers of samples as
    equal values allow.

    Raises UngroupedError if a bucket is empty, or if there is only one.
    """
    values_N = quantity.values_N
    low, high = values_N.min(), values_N.max()
    if low == high:
        raise UngroupedError(f"has only one {quantity.words}: {low:g}", "nothing can be grouped")
    bounds = list(cuts) or _equal_cuts(values_N, USUAL_NUMBER)
    place_N = np.searchsorted(bounds, values_N, side="left")
    made = list[Bucket]()
    for place in range(len(bounds) + 1):
        is_inside_N = place_N == place
        if not is_inside_N.any():
            fault = f"leaves a bucket empty {_where(bounds, place)}"
            raise UngroupedError(fault, f"{quantity.words} goes from {low:g} to {high:g}")
        inside = values_N[is_inside_N]
        made.append(Bucket(float(inside.min()), float(inside.max()), is_inside_N))
    return tuple(made)


def _where(bounds: Sequence[float], place: int) -> str:
    """Such as "above 30" or "from 10 to 20"."""
    if place == 0:
        return f"up to {bounds[0]:g}"
    if place == len(bounds):
        return f"above {bounds[-1]:g}"
    return f"from {bounds[place - 1]:g} to {bounds[place]:g}"


def _equal_cuts(values_N: Floats, number: int) -> list[float]:
    """The cuts below which lie nearly 1/number, 2/number, … of the samples."""
    distinct, frequencies = np.unique(values_N, return_counts=True)
    samples_below = np.cumsum(frequencies)[:-1]  # at a cut behind each value but the last
    cuts = set[float]()
    for place in range(1, number):
        wanted = len(values_N) * place / number
        nearest = int(np.abs(samples_below - wanted).argmin())
        cuts.add(float(distinct[nearest]))
    return sorted(cuts)
