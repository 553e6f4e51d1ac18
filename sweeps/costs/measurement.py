"""What a trial took on one machine: from the results of finished trials, or from calibration."""

import json
import socket
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from heapq import nlargest
from pathlib import Path
from typing import Any, Literal

from tracking.files import misfit, to_json, write_atomic

Source = Literal["finished", "calibrated"]
CACHE_FOLDER = ".calibration"
"""In ``paths.runs``: one file per machine."""
MOST_RESULTS = 2000
"""So many results are read, the newest ones: a plan must stay quick."""
MOST_ENTRIES = 500
"""So many measurements stay in the cache of a machine, the newest ones."""


@dataclass(frozen=True)
class Measurement:
    """Seconds and bytes of one trial. ``work``, ``conditions`` and ``machine`` are those of `sweeps.worker.pace`.

    ``start_seconds`` pass before a process can begin its first trial, and ``first_seconds`` in that one alone, since
    its work imports what it needs. ``setup_seconds`` pass before the first step of each trial. In a finished trial all
    these are part of its steps. ``other_cpu_seconds`` are of setup and scoring. None means unknown. ``version`` is that
    of allelse and of the task's code, for calibration alone.
    """

    work: str
    conditions: str
    machine: str
    source: Source
    steps: int  # that were measured
    seconds_per_step: float
    flops_per_step: float | None = None
    setup_seconds: float = 0.0
    start_seconds: float = 0.0
    first_seconds: float = 0.0
    first_cpu_seconds: float = 0.0
    scoring_seconds: float | None = None
    peak_bytes: int | None = None
    cpu_seconds_per_step: float | None = None
    other_cpu_seconds: float = 0.0
    version: str = ""


FORM = {
    **dict.fromkeys(("work", "conditions", "machine", "source", "version"), str),
    **{
        "steps": int,
        "seconds_per_step": float,
        "setup_seconds": float,
        "start_seconds": float,
        "flops_per_step": float | None,
    },
    **{
        "scoring_seconds": float | None,
        "peak_bytes": int | None,
        "cpu_seconds_per_step": float | None,
    },
    **dict.fromkeys(("other_cpu_seconds", "first_seconds", "first_cpu_seconds"), float),
}
PACE = {
    **dict.fromkeys(("work", "conditions", "machine"), str),
    **{
        "flops_per_step": float | None,
        "scoring_seconds": float,
        "cpu_seconds": float,
        "peak_bytes": int,
    },
}


def finished_trials(runs: Path, conditions: Collection[str], machine: str | None) -> list[Measurement]:
    """Of all studies in this folder, the trials that ran under one of these conditions on this type of machine.

    With None they may have run on any machine. A result that cannot be read is passed over.
    """
    trials = (_finished(path) for path in _newest_results(runs))
    return [
        trial
        for trial in trials
        if trial is not None and trial.conditions in conditions and machine in (None, trial.machine)
    ]


def _newest_results(runs: Path) -> list[Path]:
    dated = list[tuple[float, Path]]()
    for path in runs.glob("*/*/result.json"):
        with suppress(OSError):  # it was removed a moment ago
            dated.append((path.stat().st_mtime, path))
    return [path for _, path in nlargest(MOST_RESULTS, dated)]


def _finished(path: Path) -> Measurement | None:
    """None for a trial that an older version trained, which recorded no pace."""
    result = _read(path)
    pace = result.get("pace") if isinstance(result, dict) else None
    if pace is None or misfit(pace, PACE) or misfit(result, {"seconds": float, "step": int}):
        return None
    if result["step"] < 1:
        return None
    return Measurement(
        work=pace["work"],
        conditions=pace["conditions"],
        machine=pace["machine"],
        source="finished",
        steps=result["step"],
        seconds_per_step=result["seconds"] / result["step"],
        flops_per_step=pace["flops_per_step"],
        scoring_seconds=pace["scoring_seconds"],
        peak_bytes=pace["peak_bytes"],
        cpu_seconds_per_step=pace["cpu_seconds"] / result["step"],
    )


def calibrated_trials(runs: Path, conditions: Collection[str], machine: str, version: str) -> list[Measurement]:
    """What calibration has measured on this machine, with this version of allelse and of the task's code."""
    expected = (machine, version)
    return [
        entry
        for entry in _entries(cache_path(runs))
        if (entry.machine, entry.version) == expected and entry.conditions in conditions
    ]


def keep_calibrated(runs: Path, measured: Iterable[Measurement]) -> Path:
    """Write these into this machine's cache, in the place of older ones of the same work. Returns the file."""
    path = cache_path(runs)
    entries = {_identity(entry): entry for entry in _entries(path)}
    for entry in measured:
        entries.pop(_identity(entry), None)
        entries[_identity(entry)] = entry
    newest = [asdict(entry) for entry in entries.values()][-MOST_ENTRIES:]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, to_json({"measured": newest}) + "\n")
    return path


def cache_path(runs: Path) -> Path:
    """By host: several machines may share ``paths.runs``."""
    return runs / CACHE_FOLDER / f"{socket.gethostname()}.json"


def _identity(entry: Measurement) -> tuple[str, ...]:
    return entry.work, entry.conditions, entry.machine, entry.version


def _entries(path: Path) -> Iterator[Measurement]:
    """A damaged cache counts as empty: the next calibration writes it again."""
    content = _read(path)
    entries = content.get("measured") if isinstance(content, dict) else None
    names = {field.name for field in fields(Measurement)}
    for entry in entries if isinstance(entries, list) else ():
        if misfit(entry, FORM) is None:
            yield Measurement(**{name: value for name, value in entry.items() if name in names})


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
