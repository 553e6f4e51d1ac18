"""Tables of commas, semicolons or tabs: a header, then a row per step. Cells may be empty, and the
header may grow: then the writer writes the whole file again."""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

from tracking.written.formats.growing_points import GrowingPoints
from tracking.written.growing_file import Growth, UnreadError, whole_lines
from tracking.written.point import WrittenPoint, number_of, points_of

DELIMITERS = (",", "\t", ";")
MOST_COLUMNS = 1000


class CsvTable(GrowingPoints):
    def __init__(self, path: Path, source: str) -> None:
        super().__init__(path, source)
        self._header: list[str] = []
        self._is_data = False  # not metrics: its first line says so
        self._delimiter = ","

    def _records(self, growth: Growth) -> Iterator[Iterable[WrittenPoint]]:
        """Raises UnreadError for a table without a header, and for one with very many columns."""
        if growth.is_rewritten:
            self._header = []
            self._is_data = False
        lines = whole_lines(growth.content)
        self._file.advance(lines)
        rows = lines.decode("utf-8-sig", "replace").split("\n")[:-1]
        if rows and not self._header:
            self._read_header(rows.pop(0))
        if self._is_data:
            return
        try:
            for cells in csv.reader(rows, delimiter=self._delimiter):
                record = dict(zip(self._header, cells, strict=False))
                yield points_of(record, self._source)
        except csv.Error as error:
            raise UnreadError(f"has a row that is no csv: {error}") from None

    def _read_header(self, line: str) -> None:
        self._delimiter = max(DELIMITERS, key=line.count)
        (names,) = csv.reader([line], delimiter=self._delimiter)
        self._header = [name.strip() for name in names]
        has_numbers = any(number_of(name) is not None for name in self._header)
        self._is_data = has_numbers or len(self._header) > MOST_COLUMNS
        if len(self._header) > MOST_COLUMNS:
            raise UnreadError(
                f"has {len(self._header)} columns, which are data rather than metrics"
            )
        if has_numbers:
            raise UnreadError("has numbers in its first line, which should name the columns")
