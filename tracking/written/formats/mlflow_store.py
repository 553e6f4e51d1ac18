"""MLflow's stores below a folder, without its package: a file for each metric, or SQLite."""

import math
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from tracking.written.file_stamp import FileStamp
from tracking.written.formats.growing_points import GrowingPoints
from tracking.written.growing_file import Growth, UnreadError, whole_lines
from tracking.written.point import WrittenPoint

SOURCE = "mlflow"
NAME = "mlflow.db"
"""By MLflow's own choice. Other databases may belong to another program."""
LONGEST_WAIT_S = 0.2
"""For a writer that holds the database. Later it is asked again."""
NEW_METRICS = "SELECT rowid, key, value, step, is_nan FROM metrics WHERE rowid > ? ORDER BY rowid"


def from_store(value: float) -> float:
    """A number as it was logged: MLflow's databases keep infinity as the largest float."""
    return math.copysign(math.inf, value) if abs(value) == sys.float_info.max else value


class MlflowMetricFile(GrowingPoints):
    """Of MLflow's file store: lines of a time, a value and a step."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path, SOURCE)
        self._name = name

    def complete(self) -> None:
        """MLflow ends each line."""

    def _records(self, growth: Growth) -> Iterator[Iterable[WrittenPoint]]:
        """Raises UnreadError for a line of another form."""
        lines = whole_lines(growth.content)
        self._file.advance(lines)
        yield [self._point(line) for line in lines.splitlines()]

    def _point(self, line: bytes) -> WrittenPoint:
        try:
            _, value, step = line.split()[:3]
            return WrittenPoint(self._name, float(value), int(step), SOURCE)
        except ValueError:
            raise UnreadError("is no metric of MLflow's") from None


class MlflowDatabase:
    """Of MLflow's SQLite store. What is there already when a trial begins is passed over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        log = path.with_name(f"{path.name}-wal")  # of what is not in the database yet
        self._stamps = (FileStamp(path), FileStamp(log))
        self._newest = 0

    def skip_to_end(self) -> None:
        """Rows have no end that is half written."""

    def complete(self) -> None:
        """Nor is one ever without its end."""

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for a database that is none of MLflow's."""
        changes = [stamp.changed() for stamp in self._stamps]
        if not any(changes):
            return
        try:
            uri = f"{self._path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, LONGEST_WAIT_S, uri=True)) as database:
                rows = database.execute(NEW_METRICS, (self._newest,)).fetchall()
        except sqlite3.OperationalError:  # held by its writer, or without its tables as yet
            for stamp in self._stamps:
                stamp.forget()
            return
        except sqlite3.DatabaseError as error:
            if self._path.name != NAME:
                return
            raise UnreadError(f"is no database of MLflow's: {error}") from None
        for row, name, value, step, is_nan in rows:
            self._newest = row
            number = math.nan if is_nan else from_store(float(value))
            yield WrittenPoint(str(name), number, int(step), SOURCE)
