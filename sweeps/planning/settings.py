"""The schema of everything that ``conf/`` and the command line may set."""

import os
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from transformer.config import Count, DataConfig, DecodeConfig, ModelConfig, TrainConfig, TrialConfig
from transformer.schema import Range
from transformer.versions import Formerly


@dataclass(frozen=True)
class Published:
    """The paper's figures of a row; null for a blank cell."""

    ppl: float | None
    bleu: float | None
    params_m: float | None


@dataclass(frozen=True)
class Row:
    """The line of the study's table that a configuration fills."""

    group: str
    change: str = ""
    published: Published = Published(None, None, None)


@dataclass(frozen=True)
class Scale:
    """Divisors that shrink all rows equally; ``steps: null`` keeps the steps that the scale sets."""

    name: str
    width: Count
    depth: Count
    steps: Annotated[int | None, Range(1)]


@dataclass(frozen=True)
class Cluster:
    """Where trials run, and the resources of one worker of a trial."""

    address: str | None
    workers: Count
    cpus_per_worker: Count
    gpus_per_worker: Annotated[float, Range(0)]
    tokens_per_micro_batch: Annotated[Count, Formerly("tokens_per_pass")]


@dataclass(frozen=True)
class Sweep:
    """``vary`` and ``grid`` are keys with lists of values, of which rows are made; ``rows`` may be left out then."""

    name: str | None
    seeds: list[Annotated[int, Range(0, 2**31 - 1)]]
    max_failures: Annotated[int, Range(0)]
    rows: list[str] = field(default_factory=lambda: ["base"])
    vary: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tracking:
    uri: str | None
    experiment: str


@dataclass(frozen=True)
class Paths:
    runs: str
    data: str
    checkpoints: str | None


@dataclass(frozen=True)
class Settings:
    """One row of a study, complete."""

    row: Row
    scale: Scale
    model: ModelConfig
    train: TrainConfig
    decode: DecodeConfig
    data: DataConfig
    cluster: Cluster
    sweep: Sweep
    tracking: Tracking
    paths: Paths

    @property
    def trial(self) -> TrialConfig:
        return TrialConfig(self.model, self.train, self.decode, self.data)

    @property
    def study_folder(self) -> Path:
        return Path(self.paths.runs) / (self.sweep.name or f"{self.data.name}-{self.scale.name}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def absolute(settings: Settings, here: Path) -> Settings:
    """A copy with every local path absolute: workers have another working directory."""

    def path(text: str) -> str:
        return text if "://" in text else os.path.realpath(here / _at_home(text))

    paths, data = settings.paths, settings.data
    checkpoints = paths.checkpoints and path(paths.checkpoints)
    return replace(
        settings,
        paths=replace(paths, runs=path(paths.runs), data=path(paths.data), checkpoints=checkpoints),
        data=replace(
            data,
            mirror=data.mirror and path(data.mirror),
            train=data.train and [_absolute_file(name, here) for name in data.train],
            dev=data.dev and [_absolute_file(name, here) for name in data.dev],
            test=data.test and [_absolute_file(name, here) for name in data.test],
        ),
    )


def _at_home(text: str) -> str:
    """``~`` as the home folder. ``~NAME`` of an unknown user stays, and is refused later."""
    return os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for an unknown user


def _absolute_file(name: str, here: Path) -> str:
    """Where the file lies; a link that leads to no file, and a pipe, keep their names for the refusal."""
    if "://" in name:
        return name
    path = here / _at_home(name)
    return str(path.resolve()) if path.is_file() else os.path.abspath(path)  # noqa: PTH100 - follows no link
