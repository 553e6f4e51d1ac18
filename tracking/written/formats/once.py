"""Points of a file that is written again and again: each is given once."""

from collections import Counter
from collections.abc import Iterable, Iterator

from tracking.written.point import WrittenPoint

Occurrence = tuple[str, int | None]
"""A metric's name and its step."""


class PointsOnce:
    """Counts how often a metric had a step, since a step may rightly occur twice in a file. A point
    is given again when its value changes: the file may hold the newest values alone.

    Several files may share what was given: each checkpoint of Trainer repeats all points.

    An attempt that resumes may write the file again from where it goes on. What it then lacks of
    earlier attempts is new when it comes again.
    """

    def __init__(self, earlier: "Counter[Occurrence] | None" = None) -> None:
        self._given = Counter[Occurrence]() if earlier is None else earlier
        self._read = Counter[Occurrence]()
        self._values: dict[tuple[Occurrence, int], str] = {}  # by occurrence and its number
        self._first: Occurrence | None = None
        self._may_resume = False
        self._resumes = False

    def skip_to_end(self) -> None:
        """What was read is of earlier attempts."""
        self._may_resume = True

    def begin_again(self) -> None:
        """The file is read from its beginning."""
        self._read.clear()
        self._resumes = self._may_resume
        self._may_resume = False

    def go_on(self) -> None:
        """The file has grown, so this attempt does not write it again from the start."""
        self._may_resume = False

    def end_of_file(self) -> None:
        """Everything that the file holds was read."""
        if self._resumes:
            self._resumes = False
            for occurrence, number in self._given.items():
                self._given[occurrence] = min(number, self._read[occurrence])

    def new(self, points: Iterable[WrittenPoint]) -> Iterator[WrittenPoint]:
        """The points that were not given yet."""
        for point in points:
            occurrence = (point.name, point.step)
            self._compare_first(occurrence)
            self._read[occurrence] += 1
            number = self._read[occurrence]
            has_changed = self._has_changed(point, number)
            if has_changed or number > self._given[occurrence]:
                self._given[occurrence] = max(number, self._given[occurrence])
                yield point

    def _compare_first(self, occurrence: Occurrence) -> None:
        """A file that begins with another point has nothing of earlier attempts."""
        is_first = not self._read
        if is_first and self._resumes and occurrence != self._first:
            self._given.clear()
        if is_first:
            self._first = occurrence

    def _has_changed(self, point: WrittenPoint, number: int) -> bool:
        """Whether the value at this place is new."""
        place = ((point.name, point.step), number)
        value = str(point.value)  # NaN equals itself as a text
        earlier_value = self._values.get(place)
        self._values[place] = value
        if earlier_value is None:  # another file may have given it
            return point.step is None
        return value != earlier_value
