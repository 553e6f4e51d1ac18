"""A trial's journal: one line per report."""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracking.files import NEWEST, Lines

PastReport = tuple[float, int, dict[str, float], int | None]  # time, step, metrics, checkpoint
REPORT = {
    "step": int,
    "attempt": int,
    "ts": float,
    "metrics": {...: float},
    "checkpoint": int | None,
}
NONFINITE = "nonfinite"  # the number of metrics in a report that were left out as NaN or infinite


@dataclass(frozen=True)
class JournalLine:
    """One line of the journal; `ts` in Unix seconds. `checkpoint`: the step of one written since
    the last line."""

    ts: float
    attempt: int
    step: int
    metrics: dict[str, float]
    checkpoint: int | None = None


class Journal:
    """The reports of a trial, steps strictly increasing, each parsed when it is asked for.

    With a ``window``, only those in that many bytes at the end. Reading a report raises
    DamagedFileError.
    """

    def __init__(self, path: Path, window: int | None = None) -> None:
        self._lines = Lines(path, REPORT, window)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, place: int) -> JournalLine:
        line = self._lines[place]
        return JournalLine(
            line["ts"], line["attempt"], line["step"], line["metrics"], line.get("checkpoint")
        )

    def __iter__(self) -> Iterator[JournalLine]:
        return map(self.__getitem__, range(len(self)))

    @property
    def newest(self) -> JournalLine | None:
        return self[-1] if len(self) else None

    def newest_first(self, holding: str = "") -> Iterator[JournalLine]:
        """The reports with this text in their line."""
        return map(
            self.__getitem__,
            reversed(self._lines.holding(holding) if holding else range(len(self))),
        )

    def evenly(self, most: int, holding: str) -> Iterator[JournalLine]:
        """About so many of the reports with this text, at even distances from the first on, and the
        last one.

        The distance is a power of two, so that journals of different lengths have reports of the
        same steps.
        """
        places = self._lines.holding(holding)
        distance = 1
        while len(places) // distance > most:
            distance *= 2
        chosen = places[distance - 1 :: distance]
        return map(
            self.__getitem__, chosen if chosen[-1:] == places[-1:] else [*chosen, places[-1]]
        )

    def up_to(self, step: int) -> int:
        """The number of reports up to this step. Steps increase, so a few lines tell."""
        return bisect_right(range(len(self)), step, key=lambda place: self[place].step)


def in_line(name: str) -> str:
    """How the name of a metric stands in a journal's line, with its quotes."""
    return json.dumps(name, ensure_ascii=False)


def settled(journal: Journal, everything: bool) -> int:
    """The number of reports that can be sent, and stay as they are: all, or those up to the newest
    checkpoint.

    While the trial is not over, a further report may join the newest one. Checkpoints only grow, so
    the last one is the newest. Raises DamagedFileError.
    """
    if everything:
        return len(journal)
    checkpoints = (report.checkpoint for report in journal.newest_first('"checkpoint"'))
    last = next((step for step in checkpoints if step is not None), -1)
    return max(0, min(journal.up_to(last), len(journal) - 1))


def reports_behind(path: Path, after: int, everything: bool) -> int:
    """How many these are; of a journal that has no new report only the end is read."""
    newest = Journal(path, NEWEST).newest
    if newest is None or newest.step <= after:
        return 0
    journal = Journal(path)
    return max(0, settled(journal, everything) - journal.up_to(after))


def journal_line(
    ts: float, attempt: int, step: int, metrics: dict[str, float], checkpoint: int | None
) -> dict[str, Any]:
    """A report as JSON. It has no NaN or infinity, and MLflow would store infinity as 1.8e308. Such
    metrics are left out and counted in the metric ``nonfinite``, which shows a divergence."""
    safe = {} if checkpoint is None else {"checkpoint": checkpoint}
    return {"ts": ts, "attempt": attempt, "step": step, **safe, "metrics": _finite(metrics)}


def _finite(metrics: dict[str, float]) -> dict[str, float]:
    kept = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
    dropped = len(metrics) - len(kept)
    return {**kept, NONFINITE: float(dropped)} if dropped else kept
