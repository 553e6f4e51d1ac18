"""Files of one JSON document that is written again whenever it grows: ``trainer_state.json`` of
Trainer, and results."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracking.written.file_stamp import FileStamp
from tracking.written.formats.json_lines import json_object
from tracking.written.formats.once import Occurrence, PointsOnce
from tracking.written.growing_file import LARGEST, UnreadError
from tracking.written.point import WrittenPoint, points_of

HISTORY = "log_history"
"""The key of the records in ``trainer_state.json``."""


class JsonDocument:
    """A document that can't be read is being written, and is read again when it has changed; or it
    holds JSON lines."""

    def __init__(
        self, path: Path, source: str, earlier: "Counter[Occurrence] | None" = None
    ) -> None:
        self._path = path
        self._source = source
        self._stamp = FileStamp(path)
        self._shares_history = earlier is not None
        self._once = PointsOnce(earlier)

    def skip_to_end(self) -> None:
        """A document has no end to append to. One that repeats the history of others lacks a part
        of it."""
        if not self._shares_history:
            self._once.skip_to_end()

    def complete(self) -> None:
        """A document has no last line."""

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for a document that is too large, and OSError."""
        document = self._changed_document()
        if document is None:
            return
        self._once.begin_again()
        for record in _records(document):
            yield from self._once.new(points_of(record, self._source))
        self._once.end_of_file()

    def _changed_document(self) -> Any:
        """None if it has not changed, or is being written."""
        status = self._stamp.changed()
        if status is None:
            return None
        if status.st_size > LARGEST:
            raise UnreadError(f"is larger than {LARGEST >> 20} MB")
        content = self._path.read_bytes()
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            return [json_object(line) for line in content.splitlines()]


def _records(document: Any) -> list[Mapping[str, Any]]:
    """The records of a history or of a list, or the document itself."""
    history = document.get(HISTORY, document) if isinstance(document, Mapping) else document
    records = history if isinstance(history, list) else [history]
    return [record for record in records if isinstance(record, Mapping)]
