"""The schema of everything that ``conf/`` and the command line may set, and what is wrong with the form of a value."""

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from sweeps.config.files import HOW_TO_GIVE, MISSING
from sweeps.config.schema import Schema
from sweeps.config.tasks import TaskSource
from sweeps.schema import Named, field_types, nearest, parse
from sweeps.task import Problem, Range, Task
from tracking.uri import without_password

MAKERS = ("sweep.vary", "sweep.grid")
"""Keys that make rows of lists of values."""
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair, whose other half is gone: pairs were joined when their file was read."""
UNREAD_BYTE = re.compile("[\udc80-\udcff]")
"""What Python makes of a byte of the command line that it cannot read in this locale."""
READABLE_LETTERS = "set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
Count = Annotated[int, Range(1, 2**31 - 1)]


@dataclass(frozen=True)
class DeclaredRow:
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

    ``sustained_tflops``: what one device sustains, in TFLOP/s; with null each worker measures it. A device is a GPU,
    or the CPUs of one worker.
    """

    address: str | None
    workers: Count
    cpus_per_worker: Count
    gpus_per_worker: Annotated[float, Range(0)]
    dashboard: bool = False
    sustained_tflops: Annotated[float | None, Range(0, above=True)] = None


@dataclass(frozen=True)
class Sweep:
    """``vary`` and ``grid`` are keys with lists of values, of which rows are made; ``rows`` may be left out then.

    ``vary`` may also be a list of entries, each with the keys and values of one row.

    ``base_seeds`` are those of base, by default ``seeds``: base enters every difference. ``margin`` is by metric the δ
    below which a difference does not matter, in the metric's units.

    ``paired`` tests differences at the seeds that row and base have in common, for rows that share luck by seed.

    ``stall_minutes`` is how long a trial's workers may give no sign of life before their attempt ends.

    ``share``: whether finished trials of other studies are taken instead of training them again.
    """

    name: str | None
    seeds: list[Annotated[int, Range(0, 2**31 - 1)]]
    max_failures: Annotated[int, Range(0)]
    rows: list[str] = field(default_factory=lambda: ["base"])
    vary: dict[str, Any] | list[dict[str, Any]] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)
    stall_minutes: Annotated[float, Range(0, above=True)] = 10.0
    base_seeds: list[Annotated[int, Range(0, 2**31 - 1)]] = field(default_factory=list)
    margin: dict[str, Any] = field(default_factory=dict)
    paired: bool = False
    share: bool = True


@dataclass(frozen=True)
class Tracking:
    """Unless ``enabled``, a run sends nothing to MLflow; `allelse sync` sends it later."""

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
    """One row of a study, complete. ``trial`` is the configuration of the task."""

    source: TaskSource
    row: DeclaredRow
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
    published = Named(_published_names(task))
    row = make_dataclass(
        "Row",
        [
            ("group", str),
            ("change", str, field(default="")),
            ("published", Annotated[dict[str, float | None], published], field(default_factory=dict)),
        ],
        frozen=True,
    )
    scale = make_dataclass("Scale", [("name", str), *divisors], frozen=True)
    hints = field_types(task.schema)
    shared = [("cluster", Cluster), ("sweep", Sweep), ("tracking", Tracking), ("paths", Paths)]
    named = ("task", str, field(default=task.name))
    groups = [(group, hints[group]) for group in schema.groups]
    return make_dataclass("Tree", [("row", row), ("scale", scale), *groups, *shared, named], frozen=True)


def _published_names(task: Task[Any]) -> tuple[str, ...]:
    """What a row may state of a paper: the table's metrics, and its parameters in millions."""
    names = dict.fromkeys([metric.name for metric in task.metrics if metric.tabled])
    return (*names, "params_m")


def parse_settings(source: TaskSource, tree: object) -> tuple[Settings | None, list[Problem]]:
    """One row's settings from plain data, or every problem with it."""
    found, problems = parse(tree_type(source.task), tree)
    wrong = {problem.key for problem in problems}
    problems += [problem for problem in _text_problems(tree) if problem.key not in wrong]
    return (None if found is None or problems else _settings(source, found)), problems


def _text_problems(value: object, key: str = "") -> Iterator[Problem]:
    """Texts that no file can hold, or that OmegaConf reads as missing."""
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
        yield Problem(key, f"is {_quoted(value)}, which holds half a letter", allowed)


def parse_scale(task: Task[Any], tree: object) -> tuple[Scale | None, list[Problem]]:
    """The scale alone."""
    found, problems = parse(field_types(tree_type(task))["scale"], tree, "scale")
    return (None if found is None else _scale(found)), problems


def _settings(source: TaskSource, tree: Any) -> Settings:
    published = dict.fromkeys(_published_names(source.task)) | tree.row.published
    row = DeclaredRow(tree.row.group, tree.row.change, published)
    trial = source.task.schema(**{group: getattr(tree, group) for group in Schema.of(source.task).groups})
    return Settings(source, row, _scale(tree.scale), trial, tree.cluster, tree.sweep, tree.tracking, tree.paths)


def _scale(tree: Any) -> Scale:
    divisors = dict(vars(tree))
    return Scale(divisors.pop("name"), divisors)


def absolute(settings: Settings, here: Path) -> Settings:
    """A copy with every local path absolute: workers have another working directory."""

    def path(text: str) -> str:
        return text if "://" in text else os.path.realpath(here / at_home(text))

    paths = settings.paths
    checkpoints = paths.checkpoints and path(paths.checkpoints)
    return replace(
        settings,
        paths=replace(paths, runs=path(paths.runs), data=path(paths.data), checkpoints=checkpoints),
        trial=settings.source.task.resolved(settings.trial, here),
    )


def at_home(text: str) -> str:
    """``~`` as the home folder. ``~NAME`` of an unknown user stays, and is refused later."""
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for an unknown user


LONGEST_STUDY_NAME = 240
"""Bytes of a study's name. A file's name takes 255, and our own files add a few."""
FOLDER_NAME = 'must be the name of a folder in paths.runs: without "/", no "." at its start, no space at either end'
LONGEST_EXPERIMENT = 256  # characters, as MLflow's database has them
STORE = re.compile(
    r"https?://[^\s/:?#][^\s/]*(/\S*)?|sqlite(\+\w+)?:///(?!.*:memory:).+|databricks(:.*)?"
    r"|(postgresql|mysql|mssql)(\+\w+)?://.+",
    re.IGNORECASE,
)
"""What a store's address looks like."""
STORES = "must be http(s)://HOST:PORT, sqlite:////PATH, postgresql://…, mysql://…, mssql://…, or null"


def study_problems(settings: Settings) -> list[Problem]:
    """What is wrong with the form of a study's seeds, name, places and addresses. `preflight` asks the machine."""
    found = [*_name_problems(settings), *_place_problems(settings.paths), *_tracking_problems(settings.tracking)]
    found += [*_seed_problems(settings.sweep), *_margin_problems(settings)]
    return [*found, *address_problems(settings.cluster.address)]


def _seed_problems(sweep: Sweep) -> Iterator[Problem]:
    if not sweep.seeds or len(set(sweep.seeds)) < len(sweep.seeds):
        yield Problem("sweep.seeds", f"is {sweep.seeds}", "must list at least one seed, and each seed once")
    if len(set(sweep.base_seeds)) < len(sweep.base_seeds):
        yield Problem("sweep.base_seeds", f"is {sweep.base_seeds}", "must list each seed once; [] means sweep.seeds")


def _margin_problems(settings: Settings) -> Iterator[Problem]:
    known = [metric.name for metric in settings.source.task.metrics if metric.tabled]
    for name, margin in settings.sweep.margin.items():
        if name not in known:
            found = f'names "{name}", which is no metric of the table'
            allowed = f"must be one of {', '.join(known)}"
            yield Problem("sweep.margin", found, allowed, nearest(name, known))
        elif type(margin) not in (int, float) or not 0 < margin < math.inf:
            yield Problem("sweep.margin", f"has {margin} for {name}", "must be a number above 0, in the metric's units")


def _name_problems(settings: Settings) -> Iterator[Problem]:
    named = settings.sweep.name is not None
    key, name = ("sweep.name", settings.sweep.name or "") if named else ("scale.name", settings.scale.name)
    if not name or name != name.strip() or not name.isprintable() or name.startswith(".") or "/" in name:
        yield Problem(key, f"is {_quoted(name)}", FOLDER_NAME)
    elif (size := len(name.encode())) > LONGEST_STUDY_NAME:
        yield Problem(key, f"is a name of {size} bytes", f"must have at most {LONGEST_STUDY_NAME}")


def _place_problems(paths: Paths) -> Iterator[Problem]:
    for key, value in (("runs", paths.runs), ("data", paths.data)):
        if found := _unusable(value) or (f"is {_quoted(value)}" if "://" in value else None):
            yield Problem(f"paths.{key}", found, "must be a folder; only paths.checkpoints takes other filesystems")
    place = paths.checkpoints
    if place is not None and (found := _unusable(place)):
        yield Problem("paths.checkpoints", found, "must be a folder, a URL such as s3://BUCKET/FOLDER, or null")
    elif place is not None and place.startswith("memory:"):
        found = f"is {_quoted(place)}, which lives in the memory of one process"
        yield Problem("paths.checkpoints", found, "must be a place that outlives a process and that all nodes reach")


def _unusable(place: str) -> str | None:
    if not place.strip():
        return "is empty"
    if not place.isprintable():
        return f"is {_quoted(place)}, which has unprintable characters"
    home = Path(at_home(place.split("/")[0]))
    if place.startswith("~") and not (home.is_absolute() and home.is_dir()):
        return f"is {_quoted(place)}, but there is no such home folder"
    return None


def _tracking_problems(tracking: Tracking) -> Iterator[Problem]:
    if tracking.uri is not None and not _is_store(tracking.uri):
        yield Problem("tracking.uri", f"is {_quoted(without_password(tracking.uri))}", STORES)
    name = tracking.experiment
    if name is not None and not (name.strip() and name.isprintable() and len(name) <= LONGEST_EXPERIMENT):
        allowed = f"must be the name of an MLflow experiment, of at most {LONGEST_EXPERIMENT} characters"
        yield Problem("tracking.experiment", f"is {_quoted(name)}", allowed)


def _is_store(uri: str) -> bool:
    try:
        return STORE.fullmatch(uri) is not None and urlsplit(uri).port != 0
    except ValueError:  # no such port
        return False


def address_problems(address: str | None) -> Iterator[Problem]:
    """A problem if no head of a Ray cluster can have this address."""
    if address is None or address == "auto":
        return
    allowed = "must be HOST:PORT of a Ray head, auto for the cluster that this machine joined, or null"
    if address.startswith("ray://"):
        found = f"is {_quoted(address)}, Ray's client, which cannot place a trial's workers"
        yield Problem("cluster.address", found, f"{allowed}; start allelse on a node of the cluster")
    elif not _is_host_and_port(address):
        yield Problem("cluster.address", f"is {_quoted(address)}", allowed)


def _is_host_and_port(address: str) -> bool:
    match = re.fullmatch(r"(?:[\w.-]+|\[[0-9a-fA-F:.%\w]+\]):(\d{1,5})", address)
    return match is not None and 0 < int(match[1]) < 65536


def _quoted(text: str) -> str:
    """In quotation marks, with unprintable characters escaped, and cut."""
    return json.dumps(text[:100], ensure_ascii=not text.isprintable())
