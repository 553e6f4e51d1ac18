"""Files of JSON lines, of any name. A file whose first line is no JSON object is none of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tracking.written.growing_file import GrowingFile, UnreadError, whole_lines
from tracking.written.once import PointsOnce
from tracking.written.point import WrittenPoint, points_of


class JsonLines:
    """``is_certain``: by its name this must be JSON lines, so that a faulty line is said."""

    def __init__(self, path: Path, source: str, is_certain: bool = True) -> None:
        self._file = GrowingFile(path)
        self._source = source
        self._is_certain = is_certain
        self._is_other = False
        self._line = 0
        self._once = PointsOnce()

    def skip_to_end(self) -> None:
        self._file.skip_to_end()

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for the first line that is no JSON object, after all the others."""
        growth = None if self._is_other else self._file.growth()
        if growth is None:
            return
        if growth.is_rewritten:
            self._line = 0
            self._once.begin_again()
        lines = whole_lines(growth.content)
        self._file.advance(lines)
        faulty_line = 0
        for line in lines.splitlines():
            self._line += 1
            record = json_object(line)
            if record is not None:
                yield from self._once.new(points_of(record, self._source))
            elif self._line == 1 and not self._is_certain:
                self._is_other = True
                return
            elif line.strip() and self._is_certain:
                faulty_line = faulty_line or self._line
        if faulty_line:
            raise UnreadError(f"line {faulty_line} is no JSON object")


def json_object(text: bytes | str) -> dict[str, Any] | None:
    """None for a text that is no JSON object."""
    if text.strip()[:1] not in (b"{", "{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
