"""The points of a file that a program appends to, or writes again: each is given once."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracking.written.formats.once import PointsOnce
from tracking.written.growing_file import GrowingFile, Growth
from tracking.written.point import WrittenPoint


class GrowingPoints(ABC):
    """What the readings of such files share. Each kind of file says how its content is read."""

    def __init__(self, path: Path, source: str) -> None:
        self._file = GrowingFile(path)
        self._source = source
        self._once = PointsOnce()

    def skip_to_end(self) -> None:
        self._file.skip_to_end()
        self._once.skip_to_end()

    def complete(self) -> None:
        self._file.complete()

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for what is not of this kind, and OSError."""
        growth = self._file.growth()
        if growth is None:
            return
        if growth.is_rewritten:
            self._once.begin_again()
        elif growth.content:
            self._once.go_on()
        try:
            for points in self._records(growth):
                yield from self._once.new(points)
        finally:
            self._once.end_of_file()

    @abstractmethod
    def _records(self, growth: Growth) -> Iterator[Iterable[WrittenPoint]]:
        """The points of each whole record, up to which the file advances. Raises UnreadError."""
