"""A trial's journal: one line per report."""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracking.files import to_json, write_atomic
from tracking.json_lines.lines import NEWEST, Lines

PastReport = tuple[float, int, dict[str, float], int | None]  # time, step, metrics, checkpoint
STEP = re.compile(rb'"step": (\d+)')  # in a journal's line, before its metrics
REPORT = {
    "step": int,
    "attempt": int,
    "ts": float,
    "metrics": {...: float},
    "checkpoint": int | None,
}


@dataclass(frozen=True)
class JournalLine:
    """One line of the journal; `ts` in Unix seconds. `checkpoint`: the step of a checkpoint written
    since the last line."""

    ts: float
    attempt: int
    step: int
    metrics: dict[str, float]
    checkpoint: int | None = None


class Journal:
    """The reports of a trial, steps strictly increasing. A report is parsed when you ask for it.

    With a ``window``, only those in that many bytes at the end. Reading a report raises
    DamagedFileError.
    """

    def __init__(self, path: Path, window: int | None = None) -> None:
        self._lines = Lines(path, REPORT, window)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> JournalLine:
        line = self._lines[index]
        checkpoint = line.get("checkpoint")
        return JournalLine(line["ts"], line["attempt"], line["step"], line["metrics"], checkpoint)

    def __iter__(self) -> Iterator[JournalLine]:
        return map(self.__getitem__, range(len(self)))

    @property
    def newest(self) -> JournalLine | None:
        return self[-1] if len(self) else None

    def newest_first(self, holding: str = "") -> Iterator[JournalLine]:
        """The reports with this text in their line."""
        indices = self._lines.holding(holding) if holding else range(len(self))
        return map(self.__getitem__, reversed(indices))

    def evenly(self, most: int, holding: str) -> Iterator[JournalLine]:
        """About ``most`` of the reports with this text, at even distances, and the last one.

        Journals of different lengths have reports of the same steps, even if one of them has more
        reports than the other: an interrupted trial reports the step it stopped at.
        """
        indices = self._lines.holding(holding)
        if len(indices) > most:
            indices = self._at_even_steps(indices, most)
        return map(self.__getitem__, indices)

    def _at_even_steps(self, indices: Sequence[int], most: int) -> Sequence[int]:
        """The last index up to each multiple of a distance in steps, which is a power of two."""
        last_step = self._step(indices[-1])
        distance = 1
        while last_step > most * distance:
            distance *= 2
        chosen = {math.ceil(self._step(index) / distance): index for index in indices}
        return list(chosen.values())

    def _step(self, index: int) -> int:
        """Without parsing the whole line, since a journal may have very many."""
        found = STEP.search(self._lines.raw(index))
        return int(found[1]) if found else self[index].step

    def up_to(self, step: int) -> int:
        """The number of reports up to this step. Steps increase, so it parses only a few lines."""
        return bisect_right(range(len(self)), step, key=lambda index: self[index].step)


def in_line(name: str) -> str:
    """The name of a metric in a journal's line, with its quotes."""
    return json.dumps(name, ensure_ascii=False)


def settled(journal: Journal, everything: bool) -> int:
    """The number of reports that will not change: all, or those up to the newest checkpoint.

    Before the trial is over, another report may join the newest one. Raises DamagedFileError.
    """
    if everything:
        return len(journal)
    checkpoint = newest_checkpoint(journal)
    before = 0 if checkpoint is None else journal.up_to(checkpoint)
    return max(0, min(before, len(journal) - 1))


def newest_checkpoint(journal: Journal) -> int | None:
    """The step of the newest checkpoint in the journal; None without one. Raises
    DamagedFileError."""
    for report in journal.newest_first('"checkpoint"'):
        if report.checkpoint is not None:
            return report.checkpoint
    return None


def reports_behind(path: Path, after: int, everything: bool) -> int:
    """The number of settled reports after this step.

    Without a new report, it reads only the journal's end.
    """
    newest = Journal(path, NEWEST).newest
    if newest is None or newest.step <= after:
        return 0
    journal = Journal(path)
    return max(0, settled(journal, everything) - journal.up_to(after))


def journal_line(
    ts: float, attempt: int, step: int, metrics: dict[str, float], checkpoint: int | None
) -> dict[str, Any]:
    """A report as JSON, which has no NaN or infinity: such metrics are left out."""
    line: dict[str, Any] = {"ts": ts, "attempt": attempt, "step": step}
    if checkpoint is not None:
        line["checkpoint"] = checkpoint
    line["metrics"] = {
        name: float(value) for name, value in metrics.items() if math.isfinite(value)
    }
    return line


def restore_journal(path: Path, attempt: int, step: int, history: Iterable[PastReport]) -> None:
    """Before training resumes after `step`: keep the lines up to it, and fill in the missing ones.

    `history` holds the last reports up to `step`. A crash may have lost them here.
    """
    lines: dict[int, dict[str, Any]] = {}
    for ts, past_step, metrics, checkpoint in history:
        lines[past_step] = journal_line(ts, attempt, past_step, metrics, checkpoint)
    for line in Lines(path, REPORT):
        if line["step"] <= step:
            lines[line["step"]] = line
    if lines or path.exists():
        texts = [to_json(lines[past_step]) + "\n" for past_step in sorted(lines)]
        write_atomic(path, "".join(texts))
