"""Points of a file that is written again and again: each is given once."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tracking.written.point import WrittenPoint

Occurrence = tuple[str, int | None]
"""A metric's name and its step."""


class PointsOnce:
    """Counts how often a metric had a step, since a step may rightly occur twice in a file.

    Several files may share what was given: each checkpoint of Trainer repeats all points.
    """

    def __init__(self, earlier: "Counter[Occurrence] | None" = None) -> None:
        self._given = Counter[Occurrence]() if earlier is None else earlier
        self._read = Counter[Occurrence]()

    def begin_again(self) -> None:
        """The file is read from its beginning."""
        self._read.clear()

    def new(self, points: Iterable[WrittenPoint]) -> Iterator[WrittenPoint]:
        """The points that were not given yet."""
        for point in points:
            occurrence = (point.name, point.step)
            self._read[occurrence] += 1
            if self._read[occurrence] > self._given[occurrence]:
                self._given[occurrence] = self._read[occurrence]
                yield point
