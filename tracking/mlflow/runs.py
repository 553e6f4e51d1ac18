"""A study's runs as a store has them: what each holds, and which of them is a trial's.

A run belongs to one training. Its points cannot be taken back, so a trial that was trained anew
gets another run.
"""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tracking.attempts import AttemptRecord
from tracking.json_lines.journal import JournalLine

CARRIED, TRAINING, LEFT_OUT = "sweep.carried", "sweep.training", "sweep.left_out"
"""Tags of a trial's run: what was sent, whose training it shows, and why it is no longer part of
the study."""
DELTA = "delta/"
FINAL = "final/"
BEST = "best/"
LAST = "last/"
PUBLISHED = "published/"
SUMMARIES = (DELTA, FINAL, BEST, LAST, PUBLISHED)
"""How metrics begin that hold one number of a trial. A curve begins with none of these."""
LONGEST_PARAM = 6000
LONGEST_TAG = 8000
"""Characters of a value; MLflow cuts longer ones."""


class Point(NamedTuple):
    """One value of one metric. `ts_ms` comes from the study's files, so that a replay changes
    nothing."""

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
        """Whether it was deleted by us, not by a person: then it may come back."""
        return not self.is_active and LEFT_OUT in self.tags

    @property
    def carried_step(self) -> int:
        """The last step whose points it has; -1 without any."""
        return int(self.tags.get(CARRIED, "").partition(" ")[0] or -1)

    def holds(self, part: str, content: Any) -> bool | None:
        """Whether it has this part of a run, value by value; None if that takes a further
        request."""
        match part.partition(" ")[0]:
            case "tags":
                return all(self._has_tag(name, value) for name, value in content.items())
            case "params":
                return all(name in self.params for name in content)
            case "numbers":
                return not self.missing_numbers(content)
        return None

    def _has_tag(self, name: str, value: str) -> bool:
        return self.tags.get(name, "") == value[:LONGEST_TAG]

    def missing_numbers(self, wanted: Sequence[Point]) -> list[Point]:
        """The points that make its newest values equal to these: each of a later step than the
        metric has.

        A store takes no value back. So a number that there is no more becomes NaN.
        """
        names = {point.name for point in wanted}
        gone = [
            point._replace(value=math.nan)
            for name, point in self.latest.items()
            if name.startswith(SUMMARIES) and name not in names
        ]
        return [
            point._replace(step=self._next_step(point))
            for point in (*wanted, *gone)
            if not self._shows(point)
        ]

    def _shows(self, point: Point) -> bool:
        latest = self.latest.get(point.name)
        if latest is None:
            return False
        return latest.value == point.value or (math.isnan(latest.value) and math.isnan(point.value))

    def _next_step(self, point: Point) -> int:
        latest = self.latest.get(point.name)
        return point.step if latest is None else max(point.step, latest.step + 1)

    def unlike_params(self, params: Mapping[str, str]) -> list[str]:
        """The params with another value than these: MLflow never changes one."""
        return [
            name
            for name, value in params.items()
            if self.params.get(name, value) not in (value, value[:LONGEST_PARAM])
        ]


def training_of(attempts: Sequence[AttemptRecord]) -> str:
    """What tells one training of a trial from another one: its first attempt."""
    first = attempts[0]
    begin = [first.began, first.process.host, first.process.pid, first.process.birth]
    return hashlib.sha256(json.dumps(begin).encode()).hexdigest()[:16]


def curve_digest(step: int, journal: Sequence[JournalLine]) -> str:
    """The digest of all reports up to this step."""
    reports = [[line.ts, line.step, line.metrics] for line in journal if line.step <= step]
    return hashlib.sha256(json.dumps(reports, sort_keys=True).encode()).hexdigest()[:16]


def run_of(
    stored: Sequence[StoredRun], training: str, journal: Sequence[JournalLine]
) -> StoredRun | None:
    """The run that shows this training; None if none does. Of doubles the first one with
    content."""
    able = [run for run in stored if run.is_active or run.is_left_out]
    own = [run for run in able if _shows_training(run, training, journal)]
    return min(own, key=lambda run: (not run.is_active, run.is_empty), default=None)


def _shows_training(run: StoredRun, training: str, journal: Sequence[JournalLine]) -> bool:
    """Its points must be those of the journal. Before the first one, the first attempt tells."""
    step, _, rest = run.tags.get(CARRIED, "-1").partition(" ")
    if int(step) >= 0:
        return rest.partition(" ")[0] == curve_digest(int(step), journal)
    return run.tags.get(TRAINING, training) == training


def doubles(stored: Collection[StoredRun], kept: str | None) -> list[StoredRun]:
    """The active runs beside the one that is ``kept``."""
    return [run for run in stored if run.is_active and run.id != kept]
