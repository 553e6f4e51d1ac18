"""Repairs a trial's damaged files: each is kept as `<name>.damaged`, and its good lines stay in place.

Only the process with the trial's lock may do so.
"""

import re
import shutil
import time
from pathlib import Path
from typing import Any

from tracking.attempts import attempt_fault
from tracking.files import (
    Check,
    DamagedFileError,
    Lines,
    UnreadableError,
    append_line,
    kept_name,
    set_aside,
    to_json,
    unless_lost,
    write_atomic,
)
from tracking.journal import report_fault
from tracking.trial import TrialFolder


def salvage(folder: TrialFolder, error: DamagedFileError) -> str:
    """Remove this damage from the folder. Returns the action, as words that follow the file's name.

    Raises UnreadableError, and changes nothing, if this file or one that the repair needs is unreadable.
    """
    if isinstance(error, UnreadableError):
        raise error
    if error.path == folder.journal_path:
        lost = _lost_reports(error.path)
        return f"{_keep_good_lines(error.path, report_fault)}; lost: {lost}"
    if error.path == folder.attempts_path:
        highest = _highest_attempt(folder)
        done = _keep_good_lines(error.path, attempt_fault)
        _count_to(folder, highest)
        return done
    return f"kept as {set_aside(error.path).name}"


def _keep_good_lines(path: Path, check: Check) -> str:
    lines = _lines(path, check)
    if not path.is_file():
        return f"kept as {set_aside(path).name}" if path.exists() else "was lost"
    copy, good = kept_name(path), _good(lines)
    shutil.copyfile(path, copy)  # no rename: after a crash before the next line the damage must still be found
    write_atomic(path, "".join(to_json(line) + "\n" for line in good))
    return f"kept as {copy.name}; {len(good)} of {len(lines)} lines are good and stay"


def _lines(path: Path, check: Check) -> list[dict[str, Any] | DamagedFileError]:
    """Every line, or its fault; none of what is no file. Raises UnreadableError."""
    lines = unless_lost(lambda: Lines(path, check), None)
    return [] if lines is None else [lines.found(place) for place in range(len(lines))]


def _good(lines: list[dict[str, Any] | DamagedFileError]) -> list[dict[str, Any]]:
    return [line for line in lines if not isinstance(line, DamagedFileError)]


def _lost_reports(journal: Path) -> str:
    """The steps around the damaged lines: "1 report between steps 10 and 30". No other file has more."""
    before, lost, gaps = None, 0, list[str]()
    for line in (*_lines(journal, report_fault), None):
        if isinstance(line, DamagedFileError):
            lost += 1
            continue
        after = None if line is None else line["step"]
        if lost:
            gaps.append(f"{lost} report{'s' * (lost > 1)}{_where(before, after)}")
        before, lost = after, 0
    return ", ".join(gaps) or "all reports"


def _where(before: int | None, after: int | None) -> str:
    if before is not None and after is not None:
        return f" between steps {before} and {after}"
    return f" after step {before}" if before is not None else f" before step {after}" if after is not None else ""


def _highest_attempt(folder: TrialFolder) -> int:
    """The highest number that an attempt can have had: each lost line may have begun one."""
    attempts, journal = _lines(folder.attempts_path, attempt_fault), _lines(folder.journal_path, report_fault)
    places = (re.fullmatch(r"a(\d+)", path.name) for path in folder.path.glob("checkpoints/**/a*"))
    numbers = [
        *(line["attempt"] for line in _good([*attempts, *journal])),
        *(int(place[1]) for place in places if place),
    ]
    return max(numbers, default=0) + len(attempts) - len(_good(attempts))


def _count_to(folder: TrialFolder, number: int) -> None:
    """Attempts are fenced by their number, so no number may be used twice."""
    if number > max((attempt.number for attempt in folder.attempts.all()), default=0):
        now = time.time()
        append_line(folder.attempts_path, to_json({"attempt": number, "ts": now, "host": "unknown", "pid": 0}))
        folder.attempts.end(number, "lost: attempts.jsonl was damaged")
