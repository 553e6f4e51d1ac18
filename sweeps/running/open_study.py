"""One run of a study, with or without Ray: lock its trials, prepare its data, carry its journals to MLflow."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from filelock import FileLock
from rich.console import Console
from rich.markup import escape

from sweeps.checkpoints.store import saved_steps
from sweeps.planning.plan import Plan, cautions, recorded
from sweeps.planning.same_data import check_data
from sweeps.planning.stored_study import known_study
from sweeps.planning.trial_lock import trial_lock
from sweeps.planning.user_code import keep_origin
from sweeps.running.announced import announced
from sweeps.running.preparing import prepare_data
from sweeps.running.repair import refuse_unreadable, repair
from sweeps.running.stopping import Stopping
from sweeps.running.syncing import syncing
from sweeps.schema import Problem, RefusedError
from tracking.damage import unless_damaged
from tracking.study import write_study


def no_connection(stopping: Stopping) -> None:
    """For trials in this process, which need no cluster."""


@contextmanager
def open_study(
    plan: Plan, command: list[str], console: Console, connect: Callable[[Stopping], None] = no_connection
) -> Iterator[tuple[Plan, Stopping]]:
    """Prepare the data, lock the trials, write the study and carry its journals to MLflow while the caller runs them.

    ``connect`` is called once the data is prepared, before anything of the study is written. Yields the plan as it
    stands once the trials are locked. Raises RefusedError, Interrupted.
    """
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(stopping.watching())
        known_study(plan.folder)  # refuses a damaged study before its data is prepared
        refuse_unreadable(plan)
        _refuse_missing_steps(plan)
        pending = {planned.fingerprint for planned in plan.pending}
        prepare_data(plan, console)
        for caution in cautions(plan):
            console.print(escape(caution), style="yellow", soft_wrap=True)
        if plan.pending:
            connect(stopping)
        for planned in plan.pending:
            stack.enter_context(trial_lock(planned.folder))
        names = [planned.trial.name for planned in plan.pending]
        stack.enter_context(announced(plan.folder, names, command, stopping))
        repair(plan, console)
        plan = plan.read_again()
        _refuse_other_copies(plan, pending)
        with FileLock(plan.folder / ".locks" / "study"):
            plan = replace(plan, origin=keep_origin(plan.folder, plan.composition.shared.source, plan.code))
            write_study(recorded(plan, command))
        console.print(f"{escape(plan.folder.name)}: {len(plan.pending)} of {len(plan.trials)} trials to run")
        with syncing(plan.trials[0].settings, console):
            yield plan, stopping


def _refuse_missing_steps(plan: Plan) -> None:
    """Refuse to score a trained trial again over steps whose checkpoints are not there."""
    problems: list[Problem] = []
    for planned in plan.pending:
        name, needed = planned.trial.name, planned.task.keep(planned.config).steps
        if needed and planned.folder.finished_result(planned.trial.key):
            there = saved_steps(planned.checkpoints, planned.trial.key)
            missing, others = ([*map(str, steps)] for steps in (sorted({*needed} - there), sorted(there)))
            found = f"would be scored over the steps {', '.join(missing)}, which were not kept"
            allowed = f"must be steps with a checkpoint: {', '.join(others) or 'there is none'}"
            problems += [Problem(name, found, allowed)] if missing else []
    if problems:
        raise RefusedError(problems)


def _refuse_other_copies(plan: Plan, prepared: set[str]) -> None:
    """Refuse the plan unless its trials with the same data share one prepared copy.

    Finished trials are checked too: a trial whose record was damaged must not resume with another copy.
    """
    problems: list[Problem] = []
    for planned in plan.trials:
        if planned.fingerprint in prepared:
            check = partial(check_data, planned.folder, planned.prepared_as(), planned.prepared_folder)
            problems += unless_damaged(check, [])  # still damaged: another process runs that trial and repairs it
    if problems:
        raise RefusedError(dict.fromkeys(problems))
