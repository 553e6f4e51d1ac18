"""The seconds and memory of trials on one machine, from the results of finished trials or from
calibration."""

import json
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from heapq import nlargest
from pathlib import Path
from typing import Any, Literal, get_type_hints

from tracking.files import Form, misfit, to_json, write_atomic

Source = Literal["finished", "calibrated"]
CACHE_FOLDER = ".calibration"
"""The folder in ``paths.runs`` that holds one cache file per machine."""
MOST_RESULTS = 2000
"""Only this many of the newest results are read, to keep plans fast."""
MOST_ENTRIES = 500
"""Only this many of the newest measurements stay in a machine's cache."""


@dataclass(frozen=True)
class Measurement:
    """The seconds and bytes of one trial. None means unknown.

    `sweeps.worker.pace` defines ``work``, ``conditions`` and ``machine``. A process needs
    ``start_seconds`` before its first trial begins, and ``first_seconds`` more for that trial,
    which imports what the work needs. Each trial needs ``setup_seconds`` before its first step.
    Finished trials include all of these in ``seconds_per_step``. ``version`` is set only by
    calibration: the version of allelse and the digest of the task's code.

    ``steps`` is 0 for work that reported none; ``seconds_per_step`` are then those of the whole
    training.
    """

    work: str
    conditions: str
    machine: str
    source: Source
    steps: int  # the number of measured steps
    seconds_per_step: float
    flops_per_step: float | None = None
    setup_seconds: float = 0.0
    start_seconds: float = 0.0
    first_seconds: float = 0.0
    scoring_seconds: float | None = None
    peak_bytes: int | None = None
    version: str = ""


FORM: Form = {**get_type_hints(Measurement), "source": str}
"""The types of an entry in a cache file."""
PACE = {
    "work": str,
    "conditions": str,
    "machine": str,
    "flops_per_step": float | None,
    "scoring_seconds": float,
    "peak_bytes": int | None,
}
"""The types of ``pace`` in a result file."""
RESULT = {"seconds": float, "step": int}
"""The types of what a measurement needs beside it."""


def finished_trials(
    runs: Path,
    conditions: Collection[str],
    machine: str | None,
) -> list[Measurement]:
    """The finished trials of all studies in ``runs`` under one of these conditions, on this type of
    machine.

    With ``machine`` None, those on any machine. Skips results that cannot be read.
    """
    trials = list[Measurement]()
    for path in _newest_results(runs):
        trial = _finished_trial(path)
        if trial is None or trial.conditions not in conditions:
            continue
        if machine is None or trial.machine == machine:
            trials.append(trial)
    return trials


def _newest_results(runs: Path) -> list[Path]:
    """The result files, newest first."""
    dated_paths = list[tuple[float, Path]]()
    for path in runs.glob("*/*/result.json"):
        with suppress(OSError):  # it was removed a moment ago
            dated_paths.append((path.stat().st_mtime, path))
    return [path for _, path in nlargest(MOST_RESULTS, dated_paths)]


def _finished_trial(path: Path) -> Measurement | None:
    """The measurement in a result file. None if it has no valid pace, as from older versions, or if
    the trial diverged."""
    result = _read(path)
    pace = result.get("pace") if isinstance(result, dict) else None
    if pace is None or misfit(pace, PACE) or misfit(result, RESULT):
        return None
    if result.get("diverged") is not None:  # a few steps, to which its start would be charged
        return None
    return Measurement(
        work=pace["work"],
        conditions=pace["conditions"],
        machine=pace["machine"],
        source="finished",
        steps=result["step"],
        seconds_per_step=result["seconds"] / max(1, result["step"]),
        flops_per_step=pace["flops_per_step"],
        scoring_seconds=pace["scoring_seconds"],
        peak_bytes=pace["peak_bytes"],
    )


def calibrated_trials(
    runs: Path,
    conditions: Collection[str],
    machine: str,
    version: str,
) -> list[Measurement]:
    """The calibrated trials of this machine under one of these conditions, measured with this
    version of the code."""
    expected = (machine, version)
    return [
        entry
        for entry in _entries(cache_path(runs))
        if (entry.machine, entry.version) == expected and entry.conditions in conditions
    ]


def keep_calibrated(runs: Path, measurements: Iterable[Measurement]) -> Path:
    """Write measurements to this machine's cache, replacing older ones of the same work. Returns
    the file."""
    path = cache_path(runs)
    entries = {_identity(entry): entry for entry in _entries(path)}
    for measurement in measurements:
        identity = _identity(measurement)
        entries.pop(identity, None)  # so that it moves to the end, where the newest entries are
        entries[identity] = measurement
    newest = list(entries.values())[-MOST_ENTRIES:]
    content = {"measured": [asdict(entry) for entry in newest]}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_json(content) + "\n")
    return path


def cache_path(runs: Path) -> Path:
    """The cache file of this host: machines may share ``paths.runs``."""
    return runs / CACHE_FOLDER / f"{socket.gethostname()}.json"


def _identity(entry: Measurement) -> tuple[str, ...]:
    return entry.work, entry.conditions, entry.machine, entry.version


def _entries(path: Path) -> Iterator[Measurement]:
    """The valid measurements of a cache file, oldest first. A damaged file counts as empty."""
    content = _read(path)
    entries = content.get("measured") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        return
    names = {field.name for field in fields(Measurement)}
    for entry in entries:
        if misfit(entry, FORM) is None:
            yield Measurement(**{name: value for name, value in entry.items() if name in names})


def _read(path: Path) -> Any:
    """The parsed JSON; None if it cannot be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
