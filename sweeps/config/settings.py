"""The schema of everything that ``conf/`` and the command line may set."""

import os
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource
from sweeps.roles import field_types
from sweeps.schema import parse
from sweeps.task import Problem, Range, Task

MAKERS = ("sweep.vary", "sweep.grid")
"""Keys that make rows of lists of values."""
Count = Annotated[int, Range(1, 2**31 - 1)]


@dataclass(frozen=True)
class Row:
    """The line of the study's table that a configuration fills. ``published`` holds a paper's figures by metric."""

    group: str
    change: str = ""
    published: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """Divisors that shrink all rows equally; a divisor of null keeps what the scale sets."""

    name: str
    divisors: dict[str, int | None]


@dataclass(frozen=True)
class Cluster:
    """Where trials run, and the resources of one worker of a trial.

    ``dashboard``: start that of Ray with a Ray of our own, and print its address; that of a cluster is only printed.
    """

    address: str | None
    workers: Count
    cpus_per_worker: Count
    gpus_per_worker: Annotated[float, Range(0)]
    dashboard: bool = False


@dataclass(frozen=True)
class Sweep:
    """``vary`` and ``grid`` are keys with lists of values, of which rows are made; ``rows`` may be left out then.

    ``vary`` may also be a list of entries, each with the keys and values of one row.

    ``stall_minutes`` is how long a trial's workers may give no sign of life before their attempt ends.
    """

    name: str | None
    seeds: list[Annotated[int, Range(0, 2**31 - 1)]]
    max_failures: Annotated[int, Range(0)]
    rows: list[str] = field(default_factory=lambda: ["base"])
    vary: dict[str, Any] | list[dict[str, Any]] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    stall_minutes: Annotated[float, Range(0, above=True)] = 10.0


@dataclass(frozen=True)
class Tracking:
    uri: str | None
    experiment: str | None


@dataclass(frozen=True)
class Paths:
    runs: str
    data: str
    checkpoints: str | None


@dataclass(frozen=True)
class Settings:
    """One row of a study, complete. ``trial`` is the configuration of the task."""

    source: TaskSource
    row: Row
    scale: Scale
    trial: Any
    cluster: Cluster
    sweep: Sweep
    tracking: Tracking
    paths: Paths

    @property
    def study_folder(self) -> Path:
        task = self.source.task
        return Path(self.paths.runs) / (self.sweep.name or f"{task.title(self.trial) or task.name}-{self.scale.name}")

    def to_dict(self) -> dict[str, Any]:
        """As in ``conf/``: the platform's groups and the task's."""
        shared = {name: asdict(getattr(self, name)) for name in ("row", "cluster", "sweep", "tracking", "paths")}
        scale = {"name": self.scale.name, **self.scale.divisors}
        return {"row": shared.pop("row"), "scale": scale, **asdict(self.trial), **shared}


@cache
def tree_type(task: Task[Any]) -> type:
    """A dataclass with the form of the files: every group of the platform and of the task. For keys and types."""
    schema = Schema.of(task)
    optional = {divided.by: divided.optional for divided in schema.divided.values()}
    kinds = {name: Annotated[int | None, Range(1)] if null else Count for name, null in optional.items()}
    divisors = [(name, kind, field(default=1)) for name, kind in kinds.items()]
    names = dict.fromkeys([metric.name for metric in task.metrics if metric.tabled])
    figures = [(name, float | None, field(default=None)) for name in (*names, "params_m")]
    published = make_dataclass("Published", figures, frozen=True)
    row = make_dataclass(
        "Row",
        [
            ("group", str),
            ("change", str, field(default="")),
            ("published", published, field(default_factory=published)),
        ],
        frozen=True,
    )
    scale = make_dataclass("Scale", [("name", str), *divisors], frozen=True)
    hints = field_types(task.schema)
    shared = [("cluster", Cluster), ("sweep", Sweep), ("tracking", Tracking), ("paths", Paths)]
    named = ("task", str, field(default=task.name))
    groups = [(group, hints[group]) for group in schema.groups]
    return make_dataclass("Tree", [("row", row), ("scale", scale), *groups, *shared, named], frozen=True)


def parse_settings(source: TaskSource, tree: object) -> tuple[Settings | None, list[Problem]]:
    """One row's settings from plain data, or every problem with it."""
    found, problems = parse(tree_type(source.task), tree)
    return (None if found is None else _settings(source, found)), problems


def parse_scale(task: Task[Any], tree: object) -> tuple[Scale | None, list[Problem]]:
    """The scale alone."""
    found, problems = parse(field_types(tree_type(task))["scale"], tree, "scale")
    return (None if found is None else _scale(found)), problems


def _settings(source: TaskSource, tree: Any) -> Settings:
    row = Row(tree.row.group, tree.row.change, asdict(tree.row.published))
    trial = source.task.schema(**{group: getattr(tree, group) for group in Schema.of(source.task).groups})
    return Settings(source, row, _scale(tree.scale), trial, tree.cluster, tree.sweep, tree.tracking, tree.paths)


def _scale(tree: Any) -> Scale:
    divisors = dict(vars(tree))
    return Scale(divisors.pop("name"), divisors)


def absolute(settings: Settings, here: Path) -> Settings:
    """A copy with every local path absolute: workers have another working directory."""

    def path(text: str) -> str:
        return text if "://" in text else os.path.realpath(here / _at_home(text))

    paths = settings.paths
    checkpoints = paths.checkpoints and path(paths.checkpoints)
    return replace(
        settings,
        paths=replace(paths, runs=path(paths.runs), data=path(paths.data), checkpoints=checkpoints),
        trial=settings.source.task.resolved(settings.trial, here),
    )


def _at_home(text: str) -> str:
    """``~`` as the home folder. ``~NAME`` of an unknown user stays, and is refused later."""
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for an unknown user
