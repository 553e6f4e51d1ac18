"""Damaged files of a plan's trials: keep and report each, and rebuild it where other files hold its content."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace

import yaml
from rich.console import Console
from rich.markup import escape

from sweeps.planning.plan import Plan, PlannedTrial, config_dict
from sweeps.planning.stored_study import damaged
from sweeps.planning.trial_lock import trial_lock
from sweeps.schema import RefusedError
from tracking.damage import UnreadableError
from tracking.files import write_atomic
from tracking.salvage import salvage

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
        parts = [error.note, salvage(folder, error), follows.get(error.path.name, "")]
        yield "; ".join(filter(None, parts))
    if folder.path.is_dir() and not folder.config_path.exists():
        write_atomic(folder.config_path, yaml.safe_dump(config_dict(planned), sort_keys=False, allow_unicode=True))
