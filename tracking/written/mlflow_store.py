"""MLflow's stores below a folder, without its package: a file for each metric, or SQLite."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tracking.written.growing_file import GrowingFile, UnreadError, whole_lines
from tracking.written.once import PointsOnce
from tracking.written.point import WrittenPoint

SOURCE = "mlflow"
NAME = "mlflow.db"
"""By MLflow's own choice. Other databases may belong to another program."""
LONGEST_WAIT_S = 0.2
"""For a writer that holds the database. Later it is asked again."""
NEW_METRICS = "SELECT rowid, key, value, step, is_nan FROM metrics WHERE rowid > ? ORDER BY rowid"


class MlflowMetricFile:
    """Of MLflow's file store: lines of a time, a value and a step."""

    def __init__(self, path: Path, name: str) -> None:
        self._file = GrowingFile(path)
        self._name = name
        self._once = PointsOnce()

    def skip_to_end(self) -> None:
        self._file.skip_to_end()

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for a line of another form."""
        growth = self._file.growth()
        if growth is None:
            return
        if growth.is_rewritten:
            self._once.begin_again()
        lines = whole_lines(growth.content)
        self._file.advance(lines)
        yield from self._once.new([self._point(line) for line in lines.splitlines()])

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
        self._stamp: tuple[int, ...] = ()
        self._newest = 0

    def skip_to_end(self) -> None:
        """Rows have no end that is half written."""

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError for a database that is none of MLflow's."""
        stamp = self._changed_stamp()
        if stamp == self._stamp:
            return
        try:
            uri = f"{self._path.resolve().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, LONGEST_WAIT_S, uri=True)) as database:
                rows = database.execute(NEW_METRICS, (self._newest,)).fetchall()
        except sqlite3.OperationalError:  # held by its writer, or without its tables as yet
            return
        except sqlite3.DatabaseError as error:
            self._stamp = stamp
            if self._path.name != NAME:
                return
            raise UnreadError(f"is no database of MLflow's: {error}") from None
        self._stamp = stamp
        for row, name, value, step, is_nan in rows:
            self._newest = row
            number = float("nan") if is_nan else float(value)
            yield WrittenPoint(str(name), number, int(step), SOURCE)

    def _changed_stamp(self) -> tuple[int, ...]:
        """Of the database and of its log of what is not in it yet."""
        stamp: tuple[int, ...] = ()
        for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
            if path.exists():
                status = path.stat()
                stamp += (status.st_ino, status.st_size, status.st_mtime_ns)
        return stamp
