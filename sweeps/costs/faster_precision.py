"""Whether another precision is faster on this machine than the one of a configuration.

It is measured once per machine and sizes of a model, and kept in the user's cache folder: a plan writes nothing into
the folder in which it is typed.
"""

import hashlib
import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.planning.compose import compose_base, library_of
from sweeps.preflight.machine import Examined
from sweeps.task import PrecisionChoice, Task
from sweeps.worker.pace import machine
from tracking.files import to_json, write_atomic
from tracking.provenance import own_version

WORTH_SAYING = 1.15
"""So many times as fast: the measurement is short, and other processes disturb it."""
CACHE_VARIABLE = "XDG_CACHE_HOME"
STEPS = "steps"
"""What a scale divides besides the sizes of a model."""


@dataclass(frozen=True)
class FasterPrecision:
    """Another precision of ``key`` that is ``ratio`` times as fast as the chosen one."""

    key: str
    name: str
    chosen: str
    ratio: float

    def __str__(self) -> str:
        return f"{self.name} trains {self.ratio:.1f} times as fast as {self.chosen} on this machine"

    @property
    def advice(self) -> str:
        return f"{self.key}={self.name} chooses it, for trials with other keys"


def faster_precision(settings: Settings) -> FasterPrecision | None:
    """The fastest precision on this machine's CPU, if the configuration has a slower one.

    None also where trials run elsewhere, and where it cannot be measured.
    """
    task = settings.source.task
    cluster = settings.cluster
    if task.precision_choice is None or cluster.address is not None or cluster.gpus_per_worker > 0:
        return None
    seconds = _seconds(task, task.precision_choice, settings.trial)
    chosen = task.precision(settings.trial)
    if chosen not in seconds:
        return None
    name = min(seconds, key=lambda precision: seconds[precision])
    ratio = seconds[chosen] / seconds[name]
    if ratio < WORTH_SAYING:
        return None
    return FasterPrecision(task.precision_choice.key, name, chosen, ratio)


def examined_precisions(here: Path) -> Iterator[Examined]:
    """Of the default task's scales: whether this machine trains faster in another precision than theirs."""
    library = library_of([], here, trains=False)
    for scale in library.folders.options("scale"):
        base = compose_base([f"scale={scale}"], here, library).base
        choice = base.source.task.precision_choice
        if choice is None:
            continue
        faster = faster_precision(base)
        what = f"precision of {scale}"
        if faster is not None:
            yield Examined(what, "warning", str(faster), faster.advice)
        else:
            yield Examined(what, "ok", base.source.task.precision(base.trial))


def _seconds(task: Task[Any], choice: PrecisionChoice[Any], config: Any) -> Mapping[str, float]:
    """Seconds by precision, as kept or measured now; {} without the packages that training needs."""
    path = cache_path()
    name = _identity(task, config)
    entries = _entries(path)
    if name not in entries:
        try:
            entries[name] = {precision: float(value) for precision, value in choice.seconds(config).items()}
        except ImportError:
            return {}
        with suppress(OSError):  # a folder that cannot be written: the next plan measures again
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, to_json(entries) + "\n")
    return entries[name]


def cache_path() -> Path:
    """By host: machines may share a home folder."""
    try:
        home = Path.home()
    except RuntimeError:  # in a container, a user may have none
        home = Path(tempfile.gettempdir())
    folder = os.environ.get(CACHE_VARIABLE) or home / ".cache"
    return Path(folder) / "allelse" / f"precision-{socket.gethostname()}.json"


def _identity(task: Task[Any], config: Any) -> str:
    """Of what the seconds depend on: the machine, the versions and the sizes of the model."""
    schema = Schema.of(task)
    sizes = [key for key, role in schema.divided.items() if role.by != STEPS]
    values = schema.values(config)
    parts = [machine(False), own_version(), task.name, task.version, {key: values[key] for key in sizes}]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _entries(path: Path) -> dict[str, dict[str, float]]:
    """A damaged file counts as empty: the next measurement writes it again."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {name: seconds for name, seconds in content.items() if _is_whole(seconds)}


def _is_whole(seconds: Any) -> bool:
    return isinstance(seconds, dict) and all(isinstance(value, float) and value > 0 for value in seconds.values())
