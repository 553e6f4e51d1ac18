"""The verbs of a tracking server."""

from collections.abc import Mapping
from dataclasses import dataclass
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
