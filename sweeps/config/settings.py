"""The schema of all settings in ``conf/`` and on the command line, and problems of their form."""

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from sweeps.config.files import BASE, HOW_TO_GIVE, MISSING
from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource
from sweeps.fields import Named, field_types, parse
from sweeps.task import Problem, Range, Task
from sweeps.trees import Tree, with_values_of

VARY = "sweep.vary"
"""The key that makes rows from lists of values."""
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair. Complete pairs are joined when their file is read."""
UNREAD_BYTE = re.compile("[\udc80-\udcff]")
"""Python's stand-in for a byte of the command line that isn't text in this locale."""
READABLE_LETTERS = "set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
Count = Annotated[int, Range(1, 2**31 - 1)]


@dataclass(frozen=True)
class DeclaredRow:
    """A configuration's row in the study's table. ``published`` holds a paper's figures by
    metric."""

    group: str
    change: str = ""
    published: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """Divisors that shrink all rows equally. With a divisor of null, a key keeps the scale's
    value."""

    name: str
    divisors: dict[str, int | None]


@dataclass(frozen=True)
class Cluster:
    """Where trials run, and the resources of each worker.

    ``dashboard``: also start Ray's dashboard with a local Ray. Its address is printed, also that of
    a cluster.

    ``sustained_tflops``: the TFLOP/s that one device sustains; with null, each worker measures it.
    A device is a GPU, or the CPUs of one worker.
    """

    address: str | None
    workers: Count
    cpus_per_worker: Count
    gpus_per_worker: Annotated[float, Range(0)]
    dashboard: bool = False
    sustained_tflops: Annotated[float | None, Range(0, above=True)] = None

    @property
    def needs(self) -> dict[str, float]:
        """What one worker takes, by the names of Ray's resources."""
        amounts = {"CPU": float(self.cpus_per_worker), "GPU": self.gpus_per_worker}
        return {resource: amount for resource, amount in amounts.items() if amount}


@dataclass(frozen=True)
class Sweep:
    """The rows and seeds of a study, and how they run.

    ``vary`` has keys with lists of values, which make rows, or a list of entries, each with the
    keys and values of one row. Then ``rows`` is optional.

    ``base_seeds`` are the seeds of base, by default ``seeds``: base enters many differences.
    ``margin`` has the δ of each metric, in the metric's units. A smaller difference doesn't matter.

    ``references`` has the row with which each of these rows is compared; the others are compared
    with base. Rows that are named as references have the seeds of base, too.

    ``paired`` compares a row with its reference seed by seed, for rows that share luck by seed.

    ``stall_minutes``: an attempt ends when a worker gives no sign of life for so long.

    ``share``: use finished trials of other studies instead of training them again.
    """

    name: str | None
    seeds: list[Annotated[int, Range(0, 2**31 - 1)]]
    max_failures: Annotated[int, Range(0)]
    rows: list[str] = field(default_factory=lambda: ["base"])
    vary: dict[str, Any] | list[dict[str, Any]] = field(default_factory=dict)
    stall_minutes: Annotated[float, Range(0, above=True)] = 10.0
    base_seeds: list[Annotated[int, Range(0, 2**31 - 1)]] = field(default_factory=list)
    margin: dict[str, Any] = field(default_factory=dict)
    paired: bool = False
    share: bool = True
    references: dict[str, str] = field(default_factory=dict)

    @property
    def rows_with_base_seeds(self) -> set[str]:
        """The rows that have ``base_seeds``: with these, others are compared."""
        return {BASE, *self.references.values()}


@dataclass(frozen=True)
class Tracking:
    """Where runs are sent. Unless ``enabled``, runs send nothing to MLflow; `allelse sync` does
    later."""

    uri: str | None
    experiment: str | None
    enabled: bool = True


@dataclass(frozen=True)
class Paths:
    runs: str
    data: str
    checkpoints: str | None


@dataclass(frozen=True)
class Settings:
    """The complete settings of one row of a study. ``config`` is the task's own configuration."""

    source: TaskSource
    row: DeclaredRow
    scale: Scale
    config: Any
    cluster: Cluster
    sweep: Sweep
    tracking: Tracking
    paths: Paths

    @property
    def task(self) -> Task[Any]:
        return self.source.task

    @property
    def schema(self) -> Schema:
        return Schema.of(self.task)

    @property
    def study_folder(self) -> Path:
        if self.sweep.name:
            return Path(self.paths.runs) / self.sweep.name
        title = self.source.task.title(self.config) or self.source.task.name
        return Path(self.paths.runs) / f"{title}-{self.scale.name}"

    def to_dict(self) -> Tree:
        """The settings as in ``conf/``: the platform's groups and the task's. Without references,
        that key is left out, as files of earlier versions lack it."""
        sweep = asdict(self.sweep)
        if not self.sweep.references:
            del sweep["references"]
        return {
            "row": asdict(self.row),
            "scale": {"name": self.scale.name, **self.scale.divisors},
            **asdict(self.config),
            "cluster": asdict(self.cluster),
            "sweep": sweep,
            "tracking": asdict(self.tracking),
            "paths": asdict(self.paths),
        }


@cache
def tree_type(task: Task[Any]) -> type:
    """A dataclass with all keys and types of the files: every group of the platform and of the
    task."""
    schema = Schema.of(task)
    published = Named(_published_names(task))
    row = make_dataclass(
        "Row",
        [
            ("group", str),
            ("change", str, field(default="")),
            (
                "published",
                Annotated[dict[str, float | None], published],
                field(default_factory=dict),
            ),
        ],
        frozen=True,
    )
    scale = make_dataclass("Scale", [("name", str), *_divisor_fields(schema)], frozen=True)
    hints = field_types(task.schema)
    task_groups = [(group, hints[group]) for group in schema.groups]
    groups = [
        ("row", row),
        ("scale", scale),
        *task_groups,
        ("cluster", Cluster),
        ("sweep", Sweep),
        ("tracking", Tracking),
        ("paths", Paths),
    ]
    task_name = ("task", str, field(default=task.name))
    return make_dataclass("Tree", [*groups, task_name], frozen=True)


def _divisor_fields(schema: Schema) -> list[tuple[str, Any, Any]]:
    """The fields of a scale that divide keys, by default by 1."""
    optional = {divided.by: divided.optional for divided in schema.divided.values()}
    fields = []
    for name, may_be_null in optional.items():
        field_type = Annotated[int | None, Range(1)] if may_be_null else Count
        fields.append((name, field_type, field(default=1)))
    return fields


def _published_names(task: Task[Any]) -> tuple[str, ...]:
    """The figures of a paper that a row may have: the table's metrics, and parameters in
    millions."""
    names = dict.fromkeys([metric.name for metric in task.metrics if metric.tabled])
    return (*names, "params_m")


def parse_settings(source: TaskSource, tree: object) -> tuple[Settings | None, list[Problem]]:
    """One row's settings from plain data, or every problem with it."""
    parsed: Any
    parsed, problems = parse(tree_type(source.task), tree)
    wrong = {problem.key for problem in problems}
    problems += [problem for problem in _text_problems(tree) if problem.key not in wrong]
    if parsed is None or problems:
        return None, problems
    row = parsed.row
    published = dict.fromkeys(_published_names(source.task)) | row.published
    groups = {group: getattr(parsed, group) for group in Schema.of(source.task).groups}
    settings = Settings(
        source,
        DeclaredRow(row.group, row.change, published),
        _scale(parsed.scale),
        source.task.schema(**groups),
        parsed.cluster,
        parsed.sweep,
        parsed.tracking,
        parsed.paths,
    )
    return settings, problems


def repaired_settings(
    source: TaskSource, tree: Tree, base: Tree, wrong: Collection[str]
) -> Settings | None:
    """The settings with base's values instead of the ``wrong`` ones, so that the rest can be
    checked; None if they are still wrong."""
    settings, _ = parse_settings(source, with_values_of(base, tree, wrong))
    return settings


def _text_problems(value: object, key: str = "") -> Iterator[Problem]:
    """The problems of texts that no file can hold, or that OmegaConf reads as missing."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _text_problems(inner, f"{key}.{name}".lstrip("."))
    elif isinstance(value, list):
        for item in value:
            yield from _text_problems(item, key)
    elif value == MISSING:
        yield Problem(key, f"is {MISSING}", HOW_TO_GIVE)
    elif isinstance(value, str) and LONE_SURROGATE.search(value):
        allowed = "must be Unicode text"
        if UNREAD_BYTE.search(value):
            allowed += f"; where the locale cannot read a letter, {READABLE_LETTERS}"
        yield Problem(key, f"is {in_quotes(value)}, which holds half a letter", allowed)


def parse_scale(task: Task[Any], tree: object) -> tuple[Scale | None, list[Problem]]:
    """The scale from plain data, or every problem with it."""
    parsed, problems = parse(field_types(tree_type(task))["scale"], tree, "scale")
    if parsed is None:
        return None, problems
    return _scale(parsed), problems


def _scale(tree: Any) -> Scale:
    divisors = dict(vars(tree))
    return Scale(divisors.pop("name"), divisors)


def absolute(settings: Settings, here: Path) -> Settings:
    """A copy with absolute local paths: workers have a working directory of their own."""
    paths = settings.paths
    absolute_paths = replace(
        paths,
        runs=_absolute_path(paths.runs, here),
        data=_absolute_path(paths.data, here),
        checkpoints=paths.checkpoints and _absolute_path(paths.checkpoints, here),
    )
    config = settings.task.resolved(settings.config, here)
    return replace(settings, paths=absolute_paths, config=config)


def _absolute_path(text: str, here: Path) -> str:
    """An absolute path. A URL stays as it is."""
    return text if "://" in text else os.path.realpath(here / at_home(text))


def at_home(text: str) -> str:
    """The path with ``~`` replaced by the home folder. ``~NAME`` of an unknown user stays, and is
    refused later."""
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for an unknown user


def in_quotes(text: str) -> str:
    """The first 100 characters in quotation marks. Unprintable ones are escaped."""
    return json.dumps(text[:100], ensure_ascii=not text.isprintable())
