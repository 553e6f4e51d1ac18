"""One run of a study, with or without Ray: repair and lock its trials, prepare their data, carry
journals to MLflow."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape

from sweeps.config.schema import Schema
from sweeps.config.tasks import load_task
from sweeps.console import print_line
from sweeps.planning.cautions import cautions
from sweeps.planning.plan import Plan
from sweeps.planning.plan_record import study_with_plan
from sweeps.planning.planned_trial import PlannedTrial, configurations
from sweeps.planning.shared_trials import on_this_data
from sweeps.planning.studies.known_studies import known_study
from sweeps.planning.studies.published_copy import refuse_published
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.planning.user_code.origin import keep_origin, origin_of
from sweeps.preflight.scored_steps import refuse_missing_steps
from sweeps.problems import damaged, refuse
from sweeps.running.recording.recorder import write_config
from sweeps.running.recording.trial_copy import take_trials, with_whole_sources
from sweeps.running.stopping import Stopping, announced
from sweeps.running.syncer import syncing
from sweeps.task import Problem, RefusedError, Task, Told
from sweeps.worker.user_code.folder import new_files_shown, remove_outdated_links
from sweeps.worker.user_code.imports import running_code
from tracking.files import UnreadableError, unless_damaged
from tracking.provenance import own_files
from tracking.study import record_lock, write_study
from tracking.trial_repair import repair_file


@contextmanager
def open_study(
    plan: Plan,
    command: list[str],
    console: Console,
    connect: Callable[[Stopping], None] | None = None,
    tracked: bool = True,
) -> Iterator[tuple[Plan, Stopping]]:
    """Prepare the data, lock the trials, write the study and carry its journals to MLflow while the
    caller runs them.

    ``connect`` is called once the data is prepared, before anything of the study is written. Unless
    ``tracked``, no journal is carried. Yields the plan as it stands once the trials are locked.
    Raises RefusedError, Interrupted.
    """
    stopping = Stopping()
    source = plan.shared.source
    with ExitStack() as stack:
        own_files()  # of now, when this process imports them
        origin = origin_of(source, plan.code)
        stack.enter_context(stopping.watching())
        refuse_published(plan.folder)
        known_study(plan.folder)  # refuses a damaged study before its data is prepared
        plan = _without_unreadable(plan, console)
        refuse_missing_steps(plan)
        plan = with_whole_sources(plan, console)
        pending = {planned.fingerprint for planned in plan.pending}
        plan = _with_data(plan, console)
        if plan.pending and connect:
            connect(stopping)
        names = [planned.name for planned in plan.pending]
        for planned in plan.trials:
            if planned.name in {*names, *plan.sources}:
                stack.enter_context(trial_lock(planned.folder))
        stack.enter_context(announced(plan.folder, names, command, stopping))
        repair(plan, console)
        plan = plan.read_again()
        _refuse_unlocked(plan, names)
        _refuse_other_copies(plan, pending)
        with record_lock(plan.folder):
            plan = replace(plan, origin=keep_origin(plan.folder, origin, plan.code))
            write_study(study_with_plan(plan, command))
        plan = take_trials(plan, console)
        pending_count = f"{len(plan.pending)} of {len(plan.trials)} trials to run"
        console.print(f"{escape(plan.folder.name)}: {pending_count}")
        stack.callback(remove_outdated_links, plan.folder)
        settings = plan.trials[0].settings
        if tracked and settings.tracking.enabled:
            stack.enter_context(syncing(settings, console))
        stack.enter_context(new_files_shown(plan.code, plan.folder))
        yield plan, stopping


def _with_data(plan: Plan, console: Console) -> Plan:
    """Prepare the data. Returns the plan without the sources that were trained on another copy of
    it."""
    printed_cautions = print_cautions(plan, console)
    prepare_data(plan, console)
    plan = on_this_data(plan)
    print_cautions(plan, console, printed_cautions)  # some follow from the data
    return plan


def print_cautions(
    plan: Plan, console: Console, printed: frozenset[str] = frozenset()
) -> frozenset[str]:
    """Print what is probably unintended, without the lines already ``printed``. Returns all of
    them."""
    lines = list(cautions(plan))
    for line in lines:
        if line not in printed:
            print_line(console, line, "yellow")
    return printed | {*lines}


def _refuse_unlocked(plan: Plan, locked: list[str]) -> None:
    """Refuse to train a trial that was finished when the plan was made: another process may write
    there by now."""
    unlocked = [planned.name for planned in plan.pending if planned.name not in locked]
    if unlocked:
        fault = "was finished, but its result was removed or scored with other settings since"
        raise RefusedError(Problem(name, fault, "run the command again") for name in unlocked)


def _refuse_other_copies(plan: Plan, prepared: set[str]) -> None:
    """Refuse the plan unless its trials with the same data share one prepared copy.

    Finished trials are checked too: a trial whose record was damaged must not resume with another
    copy.
    """
    problems: list[Problem] = []
    for planned in plan.trials:
        if planned.fingerprint in prepared:
            data = planned.data
            check = partial(data.problems_for, planned.folder, data.identity())
            # still damaged: another process runs that trial and repairs it
            problems += unless_damaged(check, [])
    refuse(problems)


def prepare_data(plan: Plan, console: Console) -> None:
    """Prepare all data of the plan's pending trials. Raises RefusedError with all problems of what
    they cannot use.

    Reads no file of a trial: damaged files are repaired under its lock, and a refused study creates
    no lock.
    """
    problems: list[Problem] = []
    if plan.task.prepare is None or not plan.pending:
        return
    source = plan.shared.source
    with running_code(plan.code, plan.folder, lasting=False) as folder:
        task = source.task if folder is None else load_task(source.name, folder)
        for fingerprint in dict.fromkeys(planned.fingerprint for planned in plan.pending):
            sharing = [planned for planned in plan.pending if planned.fingerprint == fingerprint]
            try:
                problems += _prepare(task, sharing, console)
            except RefusedError as error:
                problems += error.problems
    refuse(problems)


NEW_CODE = "The task's code has changed: its data is prepared again."


def _prepare(task: Task[Any], trials: list[PlannedTrial], console: Console) -> list[Problem]:
    """Prepare or open the data that these trials share, and return its problems. ``task`` is from
    the study's code."""
    data = replace(trials[0].data, task=task)
    configs = [Schema.of(task).config(asdict(config)) for config in configurations(trials)]
    is_new = not data.folder.is_dir()
    earlier = data.earlier_copy() if is_new else None
    if earlier:
        print_line(console, f"{NEW_CODE} {earlier} stays for the trials that used it.")
    with _preparation_shown(task.title(configs[0]) or task.name, is_new, console) as on_progress:
        data.prepare_once(configs, on_progress)
        return [
            problem for config in configs for problem in task.data_problems(config, data.folder)
        ]


@contextmanager
def _preparation_shown(name: str, new: bool, console: Console) -> Iterator[Told]:
    """Show the preparation: in a terminal its current step, elsewhere a line at its start and one
    at its end."""
    began = time.monotonic()
    lines = new and not console.is_terminal
    if lines:
        console.print(f"Preparing {escape(name)}")
    with console.status(f"Preparing {escape(name)}") as status:

        def on_progress(step: str, share: float | None) -> None:
            percent = "" if share is None else f", {share:.0%}"
            status.update(escape(f"Preparing {name}: {step}{percent}"))

        yield on_progress
    if lines:
        console.print(f"Prepared {escape(name)} in {time.monotonic() - began:.1f} s")


NO_IDENTITY = (
    "its record of the data is lost, so only other trials of the study can reveal another copy"
)
WHAT_FOLLOWS = {
    "result.json": "the trial resumes from its last checkpoint and writes it again",
    "config.yaml": "it is written again",
    "provenance.json": f"the next attempt writes it again; {NO_IDENTITY}",
    "journal.jsonl": "a resume restores the reports from its checkpoint",
}
FINISHED = {
    "provenance.json": f"the trial is finished, so it is not written again; {NO_IDENTITY}",
    "journal.jsonl": "the trial is finished, so these reports cannot be recovered",
}
"""The same for a finished trial, which has no further attempt."""


def _without_unreadable(plan: Plan, console: Console) -> Plan:
    """The plan without its pending trials that have an unreadable file: it may be intact, so
    nothing replaces it.

    Prints a line for each. Raises RefusedError if no other trial is pending, or if the study is not
    recorded yet.
    """
    left_out: dict[str, list[UnreadableError]] = {}
    for planned in plan.pending:
        if errors := _unreadable(planned):
            left_out[planned.name] = errors
    readable = [planned for planned in plan.trials if planned.name not in left_out]
    with_host = [planned for planned in readable if planned.trial.weights not in left_out]
    reduced = replace(plan, trials=tuple(with_host))
    if left_out and (plan.before is None or not reduced.pending):
        raise RefusedError(damaged(error) for errors in left_out.values() for error in errors)
    for name, errors in left_out.items():
        faults = ", ".join(error.note for error in errors)
        print_line(
            console, f"{name}: {faults}; the file is left unchanged, and the trial is skipped"
        )
    return reduced


def repair(plan: Plan, console: Console) -> None:
    """Make every trial of the plan readable. Pending trials must be locked.

    Skips a finished trial that another process has locked, and a trial with an unreadable file.
    """
    for planned in plan.trials:
        if _is_whole(planned) or _unreadable(planned):
            continue
        with (
            suppress(RefusedError),
            trial_lock(planned.folder) if planned.finished else nullcontext(),
        ):
            for line in _repair_lines(planned):
                print_line(console, f"{planned.name}: {line}")


def _unreadable(planned: PlannedTrial) -> list[UnreadableError]:
    return [error for error in planned.folder.damage() if isinstance(error, UnreadableError)]


def _is_whole(planned: PlannedTrial) -> bool:
    return not planned.folder.damage() and (
        planned.folder.config_path.exists() or not planned.finished
    )


def _repair_lines(planned: PlannedTrial) -> Iterator[str]:
    folder = planned.folder
    follows = WHAT_FOLLOWS | (FINISHED if planned.finished else {})
    for error in folder.damage():
        parts = [error.note, repair_file(folder, error), follows.get(error.path.name, "")]
        yield "; ".join(filter(None, parts))
    if folder.path.is_dir() and not folder.config_path.exists():
        write_config(planned)
