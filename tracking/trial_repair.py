"""Repairs a trial's folder: keeps a copy of a damaged file, and its good lines in place."""

import re
import shutil
import uuid

from tracking.attempts import ATTEMPT, Lineage, Process
from tracking.files import (
    DamagedFileError,
    UnreadableError,
    kept_name,
    set_aside,
    to_json,
    unless_lost,
    write_atomic,
)
from tracking.json_lines.journal import REPORT
from tracking.json_lines.lines import Lines
from tracking.trial import TrialFolder


def repair_file(folder: TrialFolder, error: DamagedFileError) -> str:
    """Keep the damaged file as `<name>.damaged`. Good lines of the journal and of the attempts stay
    in place.

    Only the process with the trial's lock may do so. Returns the action, in words that follow the
    file's name. Raises UnreadableError, and changes nothing, if this file or one that the repair
    needs is unreadable.
    """
    if isinstance(error, UnreadableError):
        raise error
    path = error.path
    lost_attempt = _highest_attempt(folder) if path == folder.attempts_path else 0
    if path == folder.journal_path and path.is_file():
        action = _keep_good_lines(Lines(path, REPORT))
    elif path == folder.attempts_path and path.is_file():
        action = _keep_good_lines(Lines(path, ATTEMPT))
    elif path.exists():
        action = f"kept as {set_aside(path).name}"
    else:
        action = "was lost"
    if lost_attempt:
        _use_up_numbers(folder, lost_attempt)
    return action


def _use_up_numbers(folder: TrialFolder, lost_attempt: int) -> None:
    """Record the attempt as lost, unless one of its number is recorded: attempts are fenced by
    their number, so none is used twice."""
    newest = folder.attempts.newest()
    if newest is not None and newest.number >= lost_attempt:
        return
    lineage = folder.lineage() or Lineage(uuid.uuid4().hex)
    folder.attempts.begin(lost_attempt, Process("unknown", 0), lineage.name)
    folder.attempts.end(lost_attempt, "lost: attempts.jsonl was damaged")


def _highest_attempt(folder: TrialFolder) -> int:
    """The highest number that an attempt can have had: each lost line may have begun one."""
    attempts = unless_lost(lambda: Lines(folder.attempts_path, ATTEMPT), None)
    journal = unless_lost(lambda: Lines(folder.journal_path, REPORT), None)
    numbers = [0]
    for lines in (attempts, journal):
        if lines is not None:
            numbers += [line.get("attempt", 0) for line in lines.good()]
    for path in folder.path.glob("checkpoints/**/a*"):
        match = re.fullmatch(r"a(\d+)", path.name)
        if match:
            numbers.append(int(match[1]))
    lost_lines = 0 if attempts is None else len(attempts) - len(attempts.good())
    return max(numbers) + lost_lines


def _keep_good_lines(lines: Lines) -> str:
    copy = kept_name(lines.path)
    good_lines = lines.good()
    # A copy, no rename: after a crash before the next line the damage must still be found.
    shutil.copyfile(lines.path, copy)
    write_atomic(lines.path, "".join(to_json(line) + "\n" for line in good_lines))
    return f"kept as {copy.name}; {len(good_lines)} of {len(lines)} lines are good and stay"
