"""Files of JSON lines, of any name. A file whose first line is no JSON object is none of them."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tracking.written.formats.growing_points import GrowingPoints
from tracking.written.growing_file import Growth, UnreadError, whole_lines
from tracking.written.point import WrittenPoint, points_of


class JsonLines(GrowingPoints):
    """``is_certain``: by its name this must be JSON lines, so that a faulty line is said."""

    def __init__(self, path: Path, source: str, is_certain: bool = True) -> None:
        super().__init__(path, source)
        self._is_certain = is_certain
        self._is_other = False
        self._line = 0

    def new_points(self) -> Iterator[WrittenPoint]:
        if not self._is_other:
            yield from super().new_points()

    def _records(self, growth: Growth) -> Iterator[Iterable[WrittenPoint]]:
        """Raises UnreadError for the first line that is no JSON object, after all the others."""
        if growth.is_rewritten:
            self._line = 0
        lines = whole_lines(growth.content)
        self._file.advance(lines)
        faulty_line = 0
        for line in lines.splitlines():
            self._line += 1
            record = json_object(line)
            if record is not None:
                yield points_of(record, self._source)
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
