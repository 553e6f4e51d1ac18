"""The five verbs of a tracking server, and a twin of it in memory."""

import uuid
from dataclasses import dataclass, field
from typing import Literal, Protocol

Status = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]


@dataclass(frozen=True)
class Point:
    """One value of one metric. `ts_ms` comes from the journal, so that a replay changes nothing."""

    name: str
    value: float
    ts_ms: int
    step: int


@dataclass(frozen=True)
class RunSpec:
    """The content of a new run. It is found again by its tags `trial.key` and `sweep.id`."""

    name: str
    start_ms: int
    tags: dict[str, str]


class Tracker(Protocol):
    """A store of runs. Every verb may be repeated without changing anything."""

    def open_run(self, spec: RunSpec, known: str | None) -> str:
        """The run's id: `known` if it still exists; otherwise the run with the same tags, or a new one."""

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        """Log the params that the run lacks; existing ones are immutable."""

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None: ...

    def log_points(self, run_id: str, points: list[Point]) -> None: ...

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        """Set the status and, unless it is RUNNING, the end."""


@dataclass
class MemoryRun:
    """A run of the twin."""

    spec: RunSpec
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: set[Point] = field(default_factory=set)
    status: Status = "RUNNING"
    end_ms: int | None = None


class MemoryTracker:
    """The twin: same verbs, a dict of runs."""

    def __init__(self) -> None:
        self.runs: dict[str, MemoryRun] = {}

    def open_run(self, spec: RunSpec, known: str | None) -> str:
        if known in self.runs:
            return known
        wanted = identity(spec.tags)
        for run_id, run in self.runs.items():
            if identity(run.tags) == wanted:
                return run_id
        run_id = uuid.uuid4().hex
        self.runs[run_id] = MemoryRun(spec, tags=dict(spec.tags))
        return run_id

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        self.runs[run_id].params = params | self.runs[run_id].params

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        self.runs[run_id].tags.update(tags)

    def log_points(self, run_id: str, points: list[Point]) -> None:
        self.runs[run_id].points.update(points)

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        self.runs[run_id].status, self.runs[run_id].end_ms = status, end_ms


def identity(tags: dict[str, str]) -> tuple[str, str]:
    """The two tags that identify a trial's run."""
    return tags["trial.key"], tags["sweep.id"]
