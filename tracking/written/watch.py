"""The metrics that a training program writes below a folder and on standard output, while it
runs."""

from contextlib import suppress
from pathlib import Path

from tracking.written.folder_files import FolderFiles
from tracking.written.growing_file import UnreadError
from tracking.written.point import WrittenPoint
from tracking.written.source_kinds import UNREAD, Reading, SourceKinds
from tracking.written.standard_output import StandardOutput


class WrittenMetrics:
    """Reads whole lines and records alone; a half-written one is read when it is whole.

    Begin before the program starts: what is there already belongs to ``earlier`` attempts.
    ``notices``: what could not be read, and why, each once.
    """

    def __init__(self, folder: Path, stdout: Path) -> None:
        self.notices: list[str] = []
        self._folder = folder
        self._stdout = stdout
        self._kinds = SourceKinds()
        self._files = FolderFiles(folder)
        self._readings: dict[Path, Reading] = {}
        self._readings[stdout] = StandardOutput(stdout)
        self.earlier = self.poll()
        for reading in self._readings.values():
            reading.skip_to_end()

    def poll(self) -> list[WrittenPoint]:
        """The new points since the last call, by source in the order of writing. Never raises for
        what a file holds."""
        for path in self._files.new_files():
            self._add(path)
        points: list[WrittenPoint] = []
        for path, reading in self._readings.items():
            try:
                for point in reading.new_points():
                    points.append(point)
            except (UnreadError, OSError) as error:
                self._notice(path, error)
        return points

    def rest(self) -> list[WrittenPoint]:
        """The new points of a program that has ended well: its last lines may lack a newline."""
        points = self.poll()
        for reading in self._readings.values():
            reading.complete()
        return points + self.poll()

    def _add(self, path: Path) -> None:
        relative = path.relative_to(self._folder)
        if path in self._readings or path == self._stdout:
            return
        reading = self._kinds.reading_of(path, relative)
        if reading is not None:
            self._readings[path] = reading
        elif path.suffix in UNREAD:
            self._say(f"{relative} {UNREAD[path.suffix]}; `allelse.report` is")

    def _notice(self, path: Path, error: Exception) -> None:
        name = path.name
        with suppress(ValueError):
            name = path.relative_to(self._folder).as_posix()
        fault = str(error)
        if isinstance(error, OSError):
            fault = f"can't be read: {error.strerror or error}"
        self._say(f"{name} {fault}")

    def _say(self, notice: str) -> None:
        if notice not in self.notices:
            self.notices.append(notice)
