"""Which files hold metrics, by their names: a line for each kind."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tracking.written.formats.csv_table import CsvTable
from tracking.written.formats.event_file import EventFile
from tracking.written.formats.json_document import JsonDocument
from tracking.written.formats.json_lines import JsonLines
from tracking.written.formats.mlflow_store import MlflowDatabase, MlflowMetricFile
from tracking.written.formats.once import Occurrence
from tracking.written.point import WrittenPoint

REPORT_FILE = "allelse-report.jsonl"
"""What ``allelse.report`` writes."""
STATE_FILE = "trainer_state.json"
EVENTS = "events.out.tfevents."
SHORT_NAMES = {REPORT_FILE: "report"}
"""Sources that are no file of the program's own."""
DATA_FOLDERS = {"__pycache__", "artifacts", "node_modules"}
"""Folders without metrics. Hidden ones are passed over, too."""
DIGIT = re.compile(r"\d")
PART = re.compile(r"(?:fold|rank)[_-]?\d+", re.I)
"""A folder that each run has."""
UNREAD = {".wandb": "is W&B's own format, which isn't read"}
"""Files with metrics that can't be read, by their ending."""
MLFLOW_METRIC = re.compile(r"(?:^|/)[0-9a-f]{32}/metrics/(?P<name>.+)$")
"""In MLflow's file store, below the folder of a run."""


class Reading(Protocol):
    """A source that is read as it grows."""

    def skip_to_end(self) -> None:
        """Only what comes from now on is read."""

    def complete(self) -> None:
        """The program has ended well: a last line without a newline is whole."""

    def new_points(self) -> Iterator[WrittenPoint]:
        """Raises UnreadError and OSError."""


class SourceKinds:
    """The readings of one folder. Trainer writes its state into each checkpoint; all share one
    history."""

    def __init__(self) -> None:
        self._history = Counter[Occurrence]()

    def reading_of(self, path: Path, relative: Path) -> Reading | None:
        """None for a file that holds no metrics, by its name."""
        name = relative.name.lower()
        source = source_name(relative)
        mlflow_metric = MLFLOW_METRIC.search(relative.as_posix())
        if mlflow_metric:
            return MlflowMetricFile(path, mlflow_metric["name"])
        if name == STATE_FILE:
            return JsonDocument(path, STATE_FILE, self._history)
        if name.startswith(EVENTS):
            return EventFile(path, source)
        if name.endswith((".csv", ".tsv")):
            return CsvTable(path, source)
        if name.endswith((".jsonl", ".ndjson")):
            return JsonLines(path, source)
        if re.search(r"(metric|result|score|eval|histor).*\.json$", name):
            return JsonDocument(path, source)
        if name.endswith((".json", ".txt", ".log")):
            return JsonLines(path, source, is_certain=False)
        if name.endswith((".db", ".sqlite", ".sqlite3")):
            return MlflowDatabase(path)
        return None


def source_name(relative: Path) -> str:
    """The file's name below its folders, without those that differ from run to run: "version_0",
    "checkpoint-500" and the like. They hold a digit. The parts of one run do, too, but count."""
    folders = [
        name for name in relative.parts[:-1] if PART.fullmatch(name) or not DIGIT.search(name)
    ]
    is_event_file = relative.name.startswith(EVENTS)
    name = "tensorboard" if is_event_file else SHORT_NAMES.get(relative.name, relative.name)
    return "/".join([*folders, name])
