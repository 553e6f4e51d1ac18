"""What a trial's files show at one moment, read from their ends: `status` reads thousands."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, takewhile
from pathlib import Path
from statistics import median_low
from typing import Any

from tracking.attempts import AttemptRecord
from tracking.card import Metric
from tracking.files import Reader
from tracking.json_lines.journal import Journal, JournalLine, in_line
from tracking.provenance import SourceTrial
from tracking.trial import TrialFolder, TrialState

CLOCK_WAS_SET = 30.0
"""Times the usual time between two reports. An evaluation in between may also take long."""
WINDOW = 1 << 16
"""Bytes at the end of a journal that ``look`` reads: some hundred reports."""
PACED = 50
"""The last reports of a running trial, which give its pace."""
Stamps = tuple[object, ...]
"""Sizes and times of files, which tell whether they have changed."""


@dataclass(frozen=True)
class Look:
    """One trial. ``newest`` is its last report, ``score`` its newest headline metric. Times are in
    Unix seconds.

    ``pace``: seconds per step of the running attempt, over its last reports; None before the second
    report.
    """

    state: TrialState
    result: dict[str, Any] | None
    attempts: tuple[AttemptRecord, ...]
    newest: JournalLine | None
    score: float | None
    pace: float | None
    note: str
    source: SourceTrial | None = None

    @property
    def source_note(self) -> str:
        """Such as "taken from multi30k-half"; "" for a trial that was trained here."""
        return "" if self.source is None else f"taken from {self.source.study}"

    @property
    def attempt(self) -> AttemptRecord | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_open(self) -> bool:
        """Whether its newest attempt has not ended, as far as the files know."""
        return self.result is None and self.attempt is not None and self.attempt.ended is None

    @property
    def ended_here(self) -> bool:
        """Whether its newest attempt is open, but its process is gone from this machine."""
        return self.is_open and self.state != "running" and self.attempts[-1].process.is_here

    @property
    def has_reported(self) -> bool:
        """Whether its newest attempt has reported."""
        if self.newest is None or self.attempt is None:
            return False
        return self.newest.attempt == self.attempt.number

    def seconds_left(self, steps: int | None) -> float | None:
        """Extrapolated training time of the attempt from its pace; None if that is unknown."""
        if self.pace is None or self.newest is None or steps is None:
            return None
        since = time.time() - self.newest.ts
        return max(0.0, self.pace * (steps - self.newest.step) - max(0.0, since))


def look(folder: TrialFolder, key: str) -> Look:
    """Look at the trial with this key.

    Reads only the journal's end, and only the key of its configuration.
    """
    state, result = folder.standing(key)
    read = Reader()
    attempts = tuple(read(folder.attempts.all) or ())
    number = 1 if state == "finished" else PACED
    reports = read(partial(_newest, folder, number)) or []
    headline = folder.card.headline
    if result:
        score = result["scores"].get(headline.set, {}).get(headline.name)
    else:
        score = read(partial(_reported_score, headline, folder))
    read(folder.key)
    read(folder.provenance)
    read(folder.error)
    faults = folder.damage() if state == "damaged" else read.faults.values()
    notes = [error.note for error in faults]
    cause = None if state == "finished" else folder.cause()
    if cause:
        notes.insert(0, cause)
    is_open = attempts and attempts[-1].ended is None
    return Look(
        state=state,
        result=result,
        attempts=attempts,
        newest=reports[0] if reports else None,
        score=score,
        pace=_pace(reports, attempts[-1]) if is_open else None,
        note="; ".join(notes),
        source=folder.source(),
    )


def stamps_of(folder: TrialFolder) -> Stamps:
    """The stamps of all files behind a trial's run. The journal's is last: only the journal grows
    while the trial trains."""
    paths = (
        folder.attempts_path,
        folder.result_path,
        folder.error_path,
        folder.config_path,
        folder.provenance_path,
        folder.journal_path,
    )
    return tuple(map(stamp_of, paths))


def stamp_of(path: Path) -> object:
    """What tells whether the file has changed; None without one."""
    try:
        stat = path.stat()
    except OSError:  # the file's reader reports the fault
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _newest(folder: TrialFolder, number: int) -> list[JournalLine]:
    return list(islice(Journal(folder.journal_path, WINDOW).newest_first(), number))


def _reported_score(headline: Metric, folder: TrialFolder) -> float | None:
    """The headline metric as last reported."""
    name = f"{headline.set}/{headline.name}"
    for report in Journal(folder.journal_path, WINDOW).newest_first(holding=in_line(name)):
        if name in report.metrics:
            return report.metrics[name]
    return None


def _pace(reports: list[JournalLine], attempt: AttemptRecord) -> float | None:
    """Seconds per step. Ignores times between reports in which the clock must have been set:
    negative ones, and very long ones."""
    reports_of_attempt = takewhile(lambda report: report.attempt == attempt.number, reports)
    intervals = []
    for newer, older in pairwise(reports_of_attempt):
        intervals.append((newer.ts - older.ts, newer.step - older.step))
    if not intervals:
        return None
    median = median_low([seconds for seconds, _ in intervals])
    if median < 0:
        return None
    total_seconds = 0.0
    total_steps = 0
    for seconds, steps in intervals:
        if 0 <= seconds <= CLOCK_WAS_SET * median:
            total_seconds += seconds
            total_steps += steps
    return total_seconds / total_steps
