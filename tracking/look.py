"""What a trial's files show at one moment, read from their ends: for status, which looks at a thousand trials often."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, takewhile
from pathlib import Path
from statistics import median_low
from typing import Any

from tracking.card import Card
from tracking.damage import DamagedFileError, decoded, naming, read_whole, unless_damaged
from tracking.files import parsed_line
from tracking.journal import JournalLine
from tracking.journal_end import check_end, newest_first
from tracking.metrics import Metric
from tracking.shapes import statistics_head
from tracking.trial_folder import Attempt, TrialFolder, TrialState

CLOCK_WAS_SET = 30.0
"""Times the usual time between two reports. An evaluation in between may take long, too."""


@dataclass(frozen=True)
class Look:
    """One trial. ``newest`` is its last report, ``score`` its newest headline. Times are in Unix seconds.

    ``pace``: seconds per step of the running attempt, measured over its last reports; None before the second.
    """

    state: TrialState
    result: dict[str, Any] | None
    attempts: tuple[Attempt, ...]
    newest: JournalLine | None
    score: float | None
    pace: float | None
    note: str

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def is_open(self) -> bool:
        """Whether its newest attempt did not end, as far as the files know."""
        return self.result is None and self.attempt is not None and self.attempt.ended is None

    @property
    def last_sign(self) -> float | None:
        """When the newest attempt began or last reported."""
        if self.attempt is None:
            return None
        reported = [self.newest.ts] if self.newest and self.newest.attempt == self.attempt.number else []
        return max([self.attempt.began, *reported])

    def seconds_left(self, steps: int | None, now: float | None = None) -> float | None:
        """Extrapolated training time of the attempt from its pace; None if that is unknown."""
        if self.pace is None or self.newest is None or steps is None:
            return None
        since = (time.time() if now is None else now) - self.newest.ts
        return max(0.0, self.pace * (steps - self.newest.step) - max(0.0, since))


def look(folder: TrialFolder, key: str) -> Look:
    """Of the trial with this key. A finished trial's journal and statistics are not parsed."""
    state, result = folder.standing(key)
    attempts = tuple(unless_damaged(folder.attempts, []))
    reports = unless_damaged(partial(_reports, folder, finished=state == "finished"), [])
    notes = [error.note for error in (_damage(folder) if state == "finished" else folder.damage())]
    cause = folder.cause() if state != "finished" else None
    pace = _pace(reports, attempts[-1]) if attempts and attempts[-1].ended is None else None
    note = "; ".join(filter(None, [cause, *notes]))
    headline = folder.card.headline
    return Look(state, result, attempts, next(iter(reports), None), _score(headline, result, reports), pace, note)


def _reports(folder: TrialFolder, finished: bool) -> list[JournalLine]:
    """The last reports, the newest first; only one of a finished trial, whose result has the rest."""
    return list(islice(newest_first(folder.journal_path, folder.card), 1 if finished else None))


def _score(headline: Metric, result: dict[str, Any] | None, reports: list[JournalLine]) -> float | None:
    """The headline metric: of the result, or as last reported."""
    point = f"{headline.set}/{headline.name}"
    scores = (result or {}).get("scores", {}).get(headline.set, {})
    seen = (report.metrics[point] for report in reports if point in report.metrics)
    return next(seen, None) if result is None else scores.get(headline.name)


def _pace(reports: list[JournalLine], attempt: Attempt) -> float | None:
    """Without times between reports in which the clock must have been set: negative ones, and very long ones."""
    own = takewhile(lambda report: report.attempt == attempt.number, reports)
    took = [(newer.ts - older.ts, newer.step - older.step) for newer, older in pairwise(own)]
    usual = median_low([seconds for seconds, _ in took]) if took else 0.0
    kept = [(seconds, steps) for seconds, steps in took if 0 <= seconds <= CLOCK_WAS_SET * usual]
    return sum(seconds for seconds, _ in kept) / sum(steps for _, steps in kept) if took and usual >= 0 else None


def _damage(folder: TrialFolder) -> Iterator[DamagedFileError]:
    """The faults of a finished trial's files that show without parsing them all."""
    statistics: list[Callable[[], Any]] = [
        partial(_check_statistics, path, folder.card) for path in sorted((folder.path / "statistics").rglob("*.jsonl"))
    ]
    journal = partial(check_end, folder.journal_path)
    readers: list[Callable[[], Any]] = [folder.attempts, journal, partial(_check_config, folder), folder.provenance]
    for read in (*readers, folder.error, *statistics):
        try:
            read()
        except DamagedFileError as error:
            yield error


def _check_config(folder: TrialFolder) -> None:
    """As a sweep writes it, whole, or else parsed to tell the fault."""
    content = read_whole(folder.config_path)
    if content is not None:
        text = decoded(folder.config_path, content)
        if not (text.startswith("key: ") and "\npaths:\n" in text and "\0" not in text):
            folder.trained_config()


def _check_statistics(path: Path, card: Card) -> None:
    """The first line and the last byte."""
    with naming(path), path.open("rb") as file:
        head = parsed_line(path, 1, file.readline().rstrip(b"\n"), partial(statistics_head, card=card))
        size = file.seek(0, 2)
        file.seek(max(0, size - 1))
        whole = file.read() == b"\n"
    if isinstance(head, DamagedFileError):
        raise head
    if not whole:
        raise DamagedFileError(path, "its last line is cut off")
