"""A study's runs as a store has them: what each holds, and which one belongs to a trial.

A run shows one training. Its points can't be taken back, so a trial that was trained again gets a
new run.
"""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracking.attempts import AttemptRecord
from tracking.json_lines.journal import JournalLine

CARRIED = "sweep.carried"
TRAINING = "sweep.training"
LEFT_OUT = "sweep.left_out"
"""Tags of a trial's run: what was sent, which training it shows, and why it was left out."""
DELTA = "delta/"
FINAL = "final/"
BEST = "best/"
LAST = "last/"
PUBLISHED = "published/"
SUMMARIES = (DELTA, FINAL, BEST, LAST, PUBLISHED)
"""Prefixes of metrics with one number per trial. No curve begins with one of these."""
LONGEST_PARAM = 6000
LONGEST_TAG = 8000
"""Characters of a value; MLflow cuts longer ones."""


class Point(NamedTuple):
    """A value of a metric.

    `ts_ms` comes from the study's files, so that a replay changes nothing.
    """

    name: str
    value: float
    ts_ms: int
    step: int


@dataclass(frozen=True)
class StoredRun:
    """What a run holds. ``latest``: the newest point of each metric."""

    id: str
    is_active: bool
    tags: Mapping[str, str]
    params: Mapping[str, str] = field(default_factory=dict)
    latest: Mapping[str, Point] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.latest or self.params)

    @property
    def is_left_out(self) -> bool:
        """Whether we deleted it, not a person: then it may come back."""
        return not self.is_active and LEFT_OUT in self.tags

    @property
    def carried_step(self) -> int:
        """The last step whose points it has; -1 without any."""
        return int(self.tags.get(CARRIED, "").partition(" ")[0] or -1)

    def holds(self, part: str, content: Any) -> bool | None:
        """Whether it has this part, value by value; None if only a request can tell."""
        match part.partition(" ")[0]:
            case "tags":
                tags = content.items()
                return all(self.tags.get(name, "") == tag[:LONGEST_TAG] for name, tag in tags)
            case "params":
                return all(name in self.params for name in content)
            case "numbers":
                return not self.missing_numbers(content)
        return None

    def missing_numbers(self, wanted: Sequence[Point]) -> list[Point]:
        """The points that make its newest values equal to these. Each has a later step than the
        metric has now, since MLflow takes the highest step as the latest.

        A store takes no value back, so a number that no longer exists becomes NaN.
        """
        names = {point.name for point in wanted}
        points = list(wanted)
        for name, point in self.latest.items():
            if name.startswith(SUMMARIES) and name not in names:
                points.append(point._replace(value=math.nan))
        missing = [point for point in points if not self._shows(point)]
        return [point._replace(step=self._next_step(point)) for point in missing]

    def _shows(self, point: Point) -> bool:
        latest = self.latest.get(point.name)
        if latest is None:
            return False
        return latest.value == point.value or (math.isnan(latest.value) and math.isnan(point.value))

    def _next_step(self, point: Point) -> int:
        latest = self.latest.get(point.name)
        return point.step if latest is None else max(point.step, latest.step + 1)

    def unlike_params(self, params: Mapping[str, str]) -> list[str]:
        """The names of params that differ from these values: MLflow never changes one."""
        names = []
        for name, value in params.items():
            if self.params.get(name, value) not in (value, value[:LONGEST_PARAM]):
                names.append(name)
        return names


def training_of(attempts: Sequence[AttemptRecord]) -> str:
    """What distinguishes one training of a trial from another: its first attempt."""
    first = attempts[0]
    process = first.process
    return digest_of([first.began, process.host, process.pid, process.birth])


def curve_digest(step: int, journal: Sequence[JournalLine]) -> str:
    """The digest of all reports up to this step."""
    reports = [[line.ts, line.step, line.metrics] for line in journal if line.step <= step]
    return digest_of(reports)


def digest_of(content: Any) -> str:
    """16 hex digits for a part of a run."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_of(
    stored: Sequence[StoredRun], training: str, journal: Sequence[JournalLine]
) -> StoredRun | None:
    """The run that shows this training; None if none does. The first double with content."""
    usable = [run for run in stored if run.is_active or run.is_left_out]
    runs = [run for run in usable if _shows_training(run, training, journal)]
    return min(runs, key=lambda run: (not run.is_active, run.is_empty), default=None)


def _shows_training(run: StoredRun, training: str, journal: Sequence[JournalLine]) -> bool:
    """Whether its points are those of the journal.

    Before the first point, the first attempt decides.
    """
    step, _, digests = run.tags.get(CARRIED, "-1").partition(" ")
    if int(step) >= 0:
        return digests.partition(" ")[0] == curve_digest(int(step), journal)
    return run.tags.get(TRAINING, training) == training


def doubles(stored: Collection[StoredRun], run_id: str | None) -> list[StoredRun]:
    """The active runs other than the one with this id."""
    return [run for run in stored if run.is_active and run.id != run_id]
