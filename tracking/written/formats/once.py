"""Points of a file that is written again and again: each is given once."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tracking.written.point import WrittenPoint

Occurrence = tuple[str, int | None]
"""A metric's name and its step."""


class PointsOnce:
    """Counts how often a metric had a step, since a step may rightly occur twice in a file. A point
    without a step is also given when its value changes: the file may hold the newest values alone.

    Several files may share what was given: each checkpoint of Trainer repeats all points.
    """

    def __init__(self, earlier: "Counter[Occurrence] | None" = None) -> None:
        self._given = Counter[Occurrence]() if earlier is None else earlier
        self._read = Counter[Occurrence]()
        self._values: dict[tuple[str, int], str] = {}  # without a step: by name and number

    def begin_again(self) -> None:
        """The file is read from its beginning."""
        self._read.clear()

    def new(self, points: Iterable[WrittenPoint]) -> Iterator[WrittenPoint]:
        """The points that were not given yet."""
        for point in points:
            occurrence = (point.name, point.step)
            self._read[occurrence] += 1
            number = self._read[occurrence]
            has_changed = point.step is None and self._has_changed(point, number)
            if has_changed or number > self._given[occurrence]:
                self._given[occurrence] = max(number, self._given[occurrence])
                yield point

    def _has_changed(self, point: WrittenPoint, number: int) -> bool:
        """Whether the value at this place is new."""
        place = (point.name, number)
        value = str(point.value)  # NaN equals itself as a text
        earlier_value = self._values.get(place)
        self._values[place] = value
        return value != earlier_value
