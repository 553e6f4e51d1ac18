"""Damaged files of a plan's trials: each is reported and kept as `<name>.damaged`, its good lines stay in place, and
what other files hold is written again. Only the process with a trial's lock may do so."""

import re
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape

from sweeps.planning.plan import Plan, PlannedTrial, config_dict
from sweeps.planning.stored_study import damaged
from sweeps.planning.trial_lock import trial_lock
from sweeps.schema import RefusedError
from tracking.attempts import attempt_fault
from tracking.damage import DamagedFileError, UnreadableError, kept_name, set_aside, unless_lost
from tracking.files import Check, Lines, append_line, to_json, write_atomic
from tracking.journal import report_fault
from tracking.trial import TrialFolder

NO_IDENTITY = "its record of the data is lost, so only other trials of the study can reveal another copy"
WHAT_FOLLOWS = {
    "result.json": "the trial resumes from its last checkpoint and writes it again",
    "config.yaml": "it is written again",
    "provenance.json": f"the next attempt writes it again; {NO_IDENTITY}",
    "journal.jsonl": "a resume restores the reports that its checkpoint holds",
}
FINISHED = {
    "provenance.json": f"the trial is finished, so it is not written again; {NO_IDENTITY}",
    "journal.jsonl": "the trial is finished, so these reports cannot be recovered",
}
"""The same for a finished trial, which has no further attempt."""


def readable(plan: Plan, console: Console) -> Plan:
    """The plan without its pending trials that have an unreadable file; prints a line for each of them.

    Raises RefusedError if no other trial is pending, or if the study is not recorded yet.
    """
    left_out = {planned.trial.name: errors for planned in plan.pending if (errors := _unreadable(planned))}
    kept = replace(plan, trials=tuple(planned for planned in plan.trials if planned.trial.name not in left_out))
    if left_out and (plan.before is None or not kept.pending):
        refuse_unreadable(plan)
    for name, errors in left_out.items():
        faults = ", ".join(error.note for error in errors)
        console.print(escape(f"{name}: {faults}; the file is left unchanged, and the trial is skipped"), soft_wrap=True)
    return kept


def refuse_unreadable(plan: Plan) -> None:
    """Raises RefusedError if a pending trial has an unreadable file: it may be intact, so nothing replaces it."""
    if problems := [damaged(error) for planned in plan.pending for error in _unreadable(planned)]:
        raise RefusedError(problems)


def repair(plan: Plan, console: Console) -> None:
    """Make every trial of the plan readable. Pending trials must be locked.

    Skips a finished trial that another process has locked, and a trial with an unreadable file.
    """
    for planned in plan.trials:
        if _is_whole(planned) or _unreadable(planned):
            continue
        with suppress(RefusedError), trial_lock(planned.folder) if planned.finished else nullcontext():
            for line in _repaired(planned):
                console.print(escape(f"{planned.trial.name}: {line}"), soft_wrap=True)


def _unreadable(planned: PlannedTrial) -> list[UnreadableError]:
    return [error for error in planned.folder.damage() if isinstance(error, UnreadableError)]


def _is_whole(planned: PlannedTrial) -> bool:
    return not planned.folder.damage() and (planned.folder.config_path.exists() or not planned.finished)


def _repaired(planned: PlannedTrial) -> Iterator[str]:
    folder, follows = planned.folder, WHAT_FOLLOWS | (FINISHED if planned.finished else {})
    for error in folder.damage():
        parts = [error.note, _salvage(folder, error), follows.get(error.path.name, "")]
        yield "; ".join(filter(None, parts))
    if folder.path.is_dir() and not folder.config_path.exists():
        write_atomic(folder.config_path, yaml.safe_dump(config_dict(planned), sort_keys=False, allow_unicode=True))


def _salvage(folder: TrialFolder, error: DamagedFileError) -> str:
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
    good, bad = _sorted_lines(path, check)
    if not path.is_file():
        return f"kept as {set_aside(path).name}" if path.exists() else "was lost"
    copy = kept_name(path)
    shutil.copyfile(path, copy)  # no rename: after a crash before the next line the damage must still be found
    write_atomic(path, "".join(to_json(line) + "\n" for line in good))
    return f"kept as {copy.name}; {len(good)} of {len(good) + bad} lines are good and stay"


def _sorted_lines(path: Path, check: Check) -> tuple[list[dict[str, Any]], int]:
    """The good lines, and the number of bad ones. Raises UnreadableError."""
    lines = _lines(path, check)
    good = [line for line in lines if not isinstance(line, DamagedFileError)]
    return good, len(lines) - len(good)


def _lines(path: Path, check: Check) -> list[dict[str, Any] | DamagedFileError]:
    """Every line, or its fault; none of what is no file. Raises UnreadableError."""
    lines = unless_lost(lambda: Lines(path, check), None)
    return [] if lines is None else [lines.found(place) for place in range(len(lines))]


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
    if before is not None:
        return f" after step {before}"
    return f" before step {after}" if after is not None else ""


def _highest_attempt(folder: TrialFolder) -> int:
    """The highest number that an attempt can have had: each lost line may have begun one."""
    attempts, lost = _sorted_lines(folder.attempts_path, attempt_fault)
    journal, _ = _sorted_lines(folder.journal_path, report_fault)
    places = (re.fullmatch(r"a(\d+)", path.name) for path in folder.path.glob("checkpoints/**/a*"))
    numbers = [*(line["attempt"] for line in (*attempts, *journal)), *(int(place[1]) for place in places if place)]
    return max(numbers, default=0) + lost


def _count_to(folder: TrialFolder, number: int) -> None:
    """Attempts are fenced by their number, so no number may be used twice."""
    if number > max((attempt.number for attempt in folder.attempts.all()), default=0):
        now = time.time()
        append_line(folder.attempts_path, to_json({"attempt": number, "ts": now, "host": "unknown", "pid": 0}))
        folder.attempts.end(number, "lost: attempts.jsonl was damaged")
