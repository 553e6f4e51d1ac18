"""Whether this machine trains faster in a precision that the configuration doesn't choose.

Each machine measures this once per model size. The results go to the user's cache folder, since a
plan writes nothing into the current folder.
"""

import hashlib
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema
from sweeps.config.settings import Settings
from sweeps.planning.study_rows.compose import compose_base
from sweeps.planning.study_rows.task_choice import library_of
from sweeps.preflight.machine import Examined
from sweeps.processes.storage import user_cache
from sweeps.task import PrecisionChoice, Task
from sweeps.worker.pace import machine
from tracking.files import to_json, write_atomic
from tracking.provenance import own_version

WORTH_SAYING = 1.15
"""The least ratio of speeds to report: the measurement is short, and other processes disturb it."""
STEPS = "steps"
"""A divisor of scales that doesn't change the model's size."""


@dataclass(frozen=True)
class FasterPrecision:
    """The precision ``name``, which is ``ratio`` times as fast as the one chosen by ``key``."""

    key: str
    name: str
    chosen: str
    ratio: float

    def __str__(self) -> str:
        return f"{self.name} trains {self.ratio:.1f} times as fast as {self.chosen} on this machine"

    @property
    def advice(self) -> str:
        return f"set {self.key}={self.name} to use it; this changes the trial keys"


def faster_precision(settings: Settings) -> FasterPrecision | None:
    """The fastest precision on this machine's CPU, if the configuration chooses a slower one.

    None also if trials run on a cluster or on GPUs, or if nothing can be measured.
    """
    task = settings.task
    cluster = settings.cluster
    if task.precision_choice is None or cluster.address is not None or cluster.gpus_per_worker > 0:
        return None
    seconds = _seconds(task, task.precision_choice, settings.config)
    chosen = task.precision(settings.config)
    if chosen not in seconds:
        return None
    fastest = min(seconds, key=lambda precision: seconds[precision])
    ratio = seconds[chosen] / seconds[fastest]
    if ratio < WORTH_SAYING:
        return None
    return FasterPrecision(task.precision_choice.key, fastest, chosen, ratio)


def examine_precisions(folder: Path) -> Iterator[Examined]:
    """Check each scale of the default task in ``folder``: does this machine train faster in another
    precision?"""
    library = library_of([], folder, trains=False)
    for scale in library.folders.options("scale"):
        base = compose_base([f"scale={scale}"], library).base
        task = base.task
        if task.precision_choice is None:
            continue
        subject = f"precision at scale {scale}"
        faster = faster_precision(base)
        if faster is not None:
            yield Examined(subject, "warning", str(faster), faster.advice)
        else:
            yield Examined(subject, "ok", task.precision(base.config))


def _seconds(task: Task[Any], choice: PrecisionChoice[Any], config: Any) -> Mapping[str, float]:
    """Seconds by precision, from the cache or measured now; {} without the packages that training
    needs."""
    path = cache_path()
    identity = _identity(task, config)
    entries = _entries(path)
    if identity not in entries:
        try:
            measured = choice.seconds(config)
        except ImportError:
            return {}
        entries[identity] = {precision: float(seconds) for precision, seconds in measured.items()}
        with suppress(OSError):  # if the folder can't be written to, the next plan measures again
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, to_json(entries) + "\n")
    return entries[identity]


def cache_path() -> Path:
    """The cache file of this host: machines may share a home folder."""
    return user_cache() / f"precision-{socket.gethostname()}.json"


def _identity(task: Task[Any], config: Any) -> str:
    """A digest of what the seconds depend on: the machine, the versions, and the model's size."""
    schema = Schema.of(task)
    values = schema.values(config)
    sizes = {key: values[key] for key, role in schema.divided.items() if role.by != STEPS}
    parts = [machine(False), own_version(), task.name, task.version, sizes]
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _entries(path: Path) -> dict[str, dict[str, float]]:
    """The seconds by precision of each cached identity. A damaged file counts as empty."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(content, dict):
        return {}
    return {identity: entry for identity, entry in content.items() if _is_valid(entry)}


def _is_valid(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    return all(isinstance(seconds, float) and seconds > 0 for seconds in entry.values())
