"""What is done about a trial's damaged files: each is kept as `<name>.damaged`, and what of it is good stays.

Only the process that holds the trial's lock may do so.
"""

import re
import shutil
import time
from pathlib import Path
from typing import Any

from tracking import shapes
from tracking.damage import DamagedFileError, kept_name, set_aside, unless_damaged
from tracking.files import ShapeCheck, append_line, sorted_lines, to_json, write_atomic
from tracking.trial_folder import TrialFolder


def salvage(folder: TrialFolder, error: DamagedFileError) -> str:
    """Make the folder readable without this damage; what was done, in words that follow the file's name."""
    if error.path == folder.journal_path:
        return _keep_good_lines(error.path, shapes.journal_line)
    if error.path == folder.attempts_path:
        highest = _highest_attempt(folder)
        done = _keep_good_lines(error.path, shapes.attempt_line)
        _count_to(folder, highest)
        return done
    return f"kept as {set_aside(error.path).name}"


def _keep_good_lines(path: Path, check: ShapeCheck) -> str:
    good, bad = _sorted(path, check)
    if not path.is_file():
        return f"kept as {set_aside(path).name}" if path.exists() else "was lost"
    copy = kept_name(path)
    shutil.copyfile(path, copy)  # no rename: a crash before the next line must leave the damage to be found again
    write_atomic(path, "".join(to_json(line) + "\n" for line in good))
    return f"kept as {copy.name}; {len(good)} of {len(good) + bad} lines are good and stay"


def _sorted(path: Path, check: ShapeCheck) -> tuple[list[dict[str, Any]], int]:
    """The good lines, and how many are not."""
    lines = unless_damaged(lambda: sorted_lines(path, check), [])
    good = [line for line in lines if not isinstance(line, DamagedFileError)]
    return good, len(lines) - len(good)


def _highest_attempt(folder: TrialFolder) -> int:
    """No attempt can have had a higher number: each line that was lost may have begun one."""
    attempts, lost = _sorted(folder.attempts_path, shapes.attempt_line)
    journal, _ = _sorted(folder.journal_path, shapes.journal_line)
    places = (re.fullmatch(r"a(\d+)", path.name) for path in folder.path.glob("checkpoints/**/a*"))
    numbers = [*(line["attempt"] for line in (*attempts, *journal)), *(int(place[1]) for place in places if place)]
    return max(numbers, default=0) + lost


def _count_to(folder: TrialFolder, number: int) -> None:
    """Attempts are fenced by their number: none may be given twice."""
    if number > max((attempt.number for attempt in folder.attempts()), default=0):
        now = time.time()
        append_line(folder.attempts_path, to_json({"attempt": number, "ts": now, "host": "unknown", "pid": 0}))
        folder.end_attempt(number, "lost: attempts.jsonl was damaged")
