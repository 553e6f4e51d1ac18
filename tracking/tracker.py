"""The verbs of a tracking server, and a twin of it in memory."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

MOST_POINTS = 1000  # MLflow's limit per request; for params and tags it is 100
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
    """The content of a new run. It is found again by those of its tags that `found_by` names."""

    name: str
    start_ms: int
    tags: dict[str, str]
    found_by: tuple[str, ...] = ("trial.key", "sweep.id")


@dataclass(frozen=True)
class Dataset:
    """The data of a run. ``digest`` has at most 36 characters; ``source`` is JSON."""

    name: str
    digest: str
    source: str


class Tracker(Protocol):
    """A store of runs in one experiment. Every verb may be repeated without changing anything."""

    experiment_id: str

    def find_run(self, spec: RunSpec, known: str | None) -> str | None:
        """The run's id: `known` if it still exists; otherwise the oldest run with the same tags."""

    def create_run(self, spec: RunSpec) -> str:
        """A new run, in any case: ask `find_run` first."""

    def remove_doubles(self, spec: RunSpec, kept: str) -> None:
        """Delete other runs with the same tags that hold neither points nor params."""

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        """Log the params that the run lacks; existing ones are immutable."""

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None: ...

    def log_points(self, run_id: str, points: list[Point]) -> None: ...

    def log_dataset(self, run_id: str, dataset: Dataset) -> None: ...

    def log_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        """Write artifacts of the run, by their paths; existing ones are replaced."""

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        """Set the status and, unless it is RUNNING, the end."""

    def experiment_name(self) -> str: ...

    def set_experiment_tags(self, tags: Mapping[str, str]) -> None: ...


@dataclass
class MemoryRun:
    """A run of the twin."""

    spec: RunSpec
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: set[Point] = field(default_factory=set)
    datasets: set[Dataset] = field(default_factory=set)
    files: dict[str, bytes] = field(default_factory=dict)
    status: Status = "RUNNING"
    end_ms: int | None = None


class MemoryTracker:
    """The twin: same verbs, a dict of runs."""

    def __init__(self, experiment: str = "memory") -> None:
        self.experiment_id = experiment
        self.runs: dict[str, MemoryRun] = {}
        self.tags: dict[str, str] = {}

    def find_run(self, spec: RunSpec, known: str | None) -> str | None:
        return known if known in self.runs else next(iter(self._alike(spec)), None)

    def remove_doubles(self, spec: RunSpec, kept: str) -> None:
        for run_id in self._alike(spec):
            if run_id != kept and not (self.runs[run_id].points or self.runs[run_id].params):
                del self.runs[run_id]

    def _alike(self, spec: RunSpec) -> list[str]:
        wanted = {name: spec.tags[name] for name in spec.found_by}
        return [run_id for run_id, run in self.runs.items() if wanted.items() <= run.tags.items()]

    def create_run(self, spec: RunSpec) -> str:
        run_id = uuid.uuid4().hex
        self.runs[run_id] = MemoryRun(spec, tags=dict(spec.tags))
        return run_id

    def log_params(self, run_id: str, params: dict[str, str]) -> None:
        self.runs[run_id].params = params | self.runs[run_id].params

    def set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        self.runs[run_id].tags.update(tags)

    def log_points(self, run_id: str, points: list[Point]) -> None:
        self.runs[run_id].points.update(points)

    def log_dataset(self, run_id: str, dataset: Dataset) -> None:
        self.runs[run_id].datasets.add(dataset)

    def log_files(self, run_id: str, files: Mapping[str, bytes]) -> None:
        self.runs[run_id].files.update(files)

    def set_status(self, run_id: str, status: Status, end_ms: int | None) -> None:
        self.runs[run_id].status, self.runs[run_id].end_ms = status, end_ms

    def experiment_name(self) -> str:
        return self.experiment_id

    def set_experiment_tags(self, tags: Mapping[str, str]) -> None:
        self.tags.update(tags)
