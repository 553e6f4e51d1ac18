"""What a trial's files show at one moment, read from their ends: for status, which looks at a
thousand trials often."""

import time
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, takewhile
from pathlib import Path
from statistics import median_low
from typing import Any

from tracking.attempts import AttemptRecord
from tracking.card import Metric
from tracking.journal import Journal, JournalLine, in_line
from tracking.source_trial import SourceTrial
from tracking.trial import Reader, TrialFolder, TrialState

CLOCK_WAS_SET = 30.0
"""Times the usual time between two reports. An evaluation in between may take long, too."""
WINDOW = 1 << 16
"""Bytes at the end of a journal that are looked at: some hundred reports."""
PACED = 50
"""Reports of a running trial over which its pace is measured."""
Stamps = tuple[object, ...]
"""Of files: whether they changed since they were last read."""


@dataclass(frozen=True)
class Look:
    """One trial. ``newest`` is its last report, ``score`` its newest headline. Times are in Unix
    seconds.

    ``pace``: seconds per step of the running attempt, measured over its last reports; None before
    the second.
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
        """Whether its newest attempt did not end, as far as the files know."""
        return self.result is None and self.attempt is not None and self.attempt.ended is None

    @property
    def ended_here(self) -> bool:
        """Whether its newest attempt is open, but its process is gone from this machine."""
        return self.is_open and self.state != "running" and self.attempts[-1].process.is_here

    @property
    def has_reported(self) -> bool:
        """Whether its newest attempt has reported."""
        return (
            self.newest is not None
            and self.attempt is not None
            and self.newest.attempt == self.attempt.number
        )

    def seconds_left(self, steps: int | None) -> float | None:
        """Extrapolated training time of the attempt from its pace; None if that is unknown."""
        if self.pace is None or self.newest is None or steps is None:
            return None
        since = time.time() - self.newest.ts
        return max(0.0, self.pace * (steps - self.newest.step) - max(0.0, since))


def look(folder: TrialFolder, key: str) -> Look:
    """Of the trial with this key. Of its journal only the end is read, of its configuration only
    the key."""
    state, result = folder.standing(key)
    read = Reader()
    attempts = tuple(read(folder.attempts.all) or ())
    reports = read(partial(_newest, folder, 1 if state == "finished" else PACED)) or []
    headline = folder.card.headline
    reported = partial(_reported_score, headline, folder)
    score = result["scores"].get(headline.set, {}).get(headline.name) if result else read(reported)
    for check in (folder.key, folder.provenance, folder.error):
        read(check)
    faults = folder.damage() if state == "damaged" else read.faults.values()
    cause = folder.cause() if state != "finished" else None
    pace = _pace(reports, attempts[-1]) if attempts and attempts[-1].ended is None else None
    note = "; ".join(filter(None, [cause, *(error.note for error in faults)]))
    return Look(
        state, result, attempts, next(iter(reports), None), score, pace, note, folder.source()
    )


def stamps_of(folder: TrialFolder) -> Stamps:
    """Of all files behind a trial's run; the last is that of the journal, which alone grows while
    the trial trains."""
    settled = (
        folder.attempts_path,
        folder.result_path,
        folder.error_path,
        folder.config_path,
        folder.provenance_path,
    )
    return tuple(map(_stamp, (*settled, folder.journal_path)))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:  # the file's reader reports the fault
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _newest(folder: TrialFolder, number: int) -> list[JournalLine]:
    return list(islice(Journal(folder.journal_path, WINDOW).newest_first(), number))


def _reported_score(headline: Metric, folder: TrialFolder) -> float | None:
    """The headline metric as last reported."""
    point = f"{headline.set}/{headline.name}"
    reports = Journal(folder.journal_path, WINDOW).newest_first(holding=in_line(point))
    return next((report.metrics[point] for report in reports if point in report.metrics), None)


def _pace(reports: list[JournalLine], attempt: AttemptRecord) -> float | None:
    """Without times between reports in which the clock must have been set: negative ones, and very
    long ones."""
    own = takewhile(lambda report: report.attempt == attempt.number, reports)
    took = [(newer.ts - older.ts, newer.step - older.step) for newer, older in pairwise(own)]
    usual = median_low([seconds for seconds, _ in took]) if took else 0.0
    kept = [(seconds, steps) for seconds, steps in took if 0 <= seconds <= CLOCK_WAS_SET * usual]
    return (
        sum(seconds for seconds, _ in kept) / sum(steps for _, steps in kept)
        if took and usual >= 0
        else None
    )
