"""The verbs that train: ``sweep`` and ``train``."""

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from sweeps.console import ERR, OUT, next_verb, print_line, printing_ends_nothing, typed_command
from sweeps.planning.studies.advice import command
from sweeps.planning.studies.study_overrides import looking, on_recorded
from sweeps.problems import refusal
from sweeps.verbs.command import (
    Add,
    ChangedCode,
    Multirun,
    OverrideList,
    guarded,
    names_and_overrides,
    next_run,
    refuse_without_extra,
)
from sweeps.verbs.report import write_report
from tracking.study import read_study
from tracking.table.layout import shown
from tracking.table.study_table import whole_table
from tracking.words import listed

if TYPE_CHECKING:
    from sweeps.planning.plan import Plan
    from sweeps.planning.planned_trial import PlannedTrial

Vouching = Annotated[
    bool,
    typer.Option(
        "--vouch",
        help="First retrain a finished trial, to check that your code still trains the same weights.",
    ),
]
Reporting = Annotated[
    bool, typer.Option("--report", help="Write the report at the end, as `allelse report` does.")
]


@guarded
def sweep(
    overrides: OverrideList = None,
    add: Add = False,
    changed_code: ChangedCode = False,
    vouch: Vouching = False,
    multirun: Multirun = False,
    report: Reporting = False,
) -> int:
    """Run every unfinished trial. Run the command again to resume where it stopped.

    A study that has begun keeps its recorded rows, seeds and settings; sweep.rows and sweep.seeds
    select from them. With --vouch, name the trial to train again, such as base-s2; the default is
    the cheapest one.
    """
    from sweeps.planning.continuation import plan_sweep

    if vouch:
        overrides = _vouched(overrides or [], add, changed_code)
    compose = partial(plan_sweep, overrides or [], add, changed_code=changed_code)
    plan = checked_plan(compose, overrides)
    from sweeps.running.sweep import run_plan  # loads what no refusal needs

    for note in (*plan.composition.notes, *plan.not_taken):
        print_line(OUT, note, "dim")
    with printing_ends_nothing():
        stopped = run_plan(plan, typed_command(), OUT)
        return _print_outcome(plan, "sweep", overrides, stopped, report)


def _vouched(words: list[str], add: bool, changed_code: bool) -> list[str]:
    """Show that today's code trains the same weights.

    Returns the overrides among the words. Raises RefusedError.
    """
    from sweeps.planning.continuation import plan_sweep
    from sweeps.preflight.checks import checked
    from sweeps.vouching.voucher import vouch

    names, overrides = names_and_overrides(words)
    if changed_code:
        fault = "can't be combined with --vouch, which marks nothing"
        raise refusal("--changed-code", fault, "use one")
    if len(names) > 1:
        raise refusal("--vouch", f"names {listed(names)}", "must name one trial")
    refuse_without_extra()
    plan = plan_sweep(overrides, add, changed_code=True)
    vouch(
        plan,
        names[0] if names else None,
        typed_command(),
        lambda retrial: checked(lambda: retrial, overrides)[0],
        lambda text: print_line(OUT, text),
    )
    return overrides


@guarded
def train(
    overrides: OverrideList = None, add: Add = False, changed_code: ChangedCode = False
) -> int:
    """Run one row (row=NAME) in this process, without Ray.

    Set its seed with sweep.seeds=[N], or with the task's own key, such as train.seed=N.
    """
    from sweeps.planning.continuation import plan_row

    compose = partial(plan_row, overrides or [], add, changed_code=changed_code)
    plan = checked_plan(compose, overrides, one_process=True)
    from sweeps.running.single_process import run_single  # loads torch, which no refusal needs

    for note in plan.composition.row_notes:
        print_line(OUT, note, "dim")
    with printing_ends_nothing():
        run_single(plan, typed_command(), OUT)
        return _print_outcome(plan, "train", overrides)


def checked_plan(
    compose: Callable[[], Any], overrides: list[str] | None, one_process: bool = False
) -> Any:
    """The composed plan, after every check that is possible before a start; prints what cannot be
    checked yet. Raises RefusedError."""
    refuse_without_extra()
    from sweeps.preflight.checks import checked

    plan, notices = checked(compose, overrides or [], one_process)
    for notice in notices:
        print_line(ERR, notice, "yellow")
    return plan


def _print_outcome(
    plan: "Plan",
    verb: str,
    overrides: list[str] | None,
    stopped: Collection[str] = frozenset(),
    with_report: bool = False,
) -> int:
    """Print how the plan that ``verb`` ran ended. Returns the exit code.

    It is 0 if every trial is finished, 130 if you ``stopped`` all the others and none failed, and
    otherwise 1. ``with_report`` writes the report here, which saves a start of Python.
    """
    failed = [trial for trial in plan.trials if trial.state == "failed"]
    study = read_study(plan.folder)
    table = whole_table(study)
    OUT.print(shown(table, OUT.width))
    _print_counts(plan, failed)
    for trial in failed:
        _print_failed_trial(plan, trial, overrides)
    if with_report:
        write_report(table, plan.shared)
    unfinished = {trial.name for trial in plan.trials if _could_have_finished(trial)}
    if unfinished:
        from sweeps.planning.studies.named_study import going_on

        is_part = len(plan.trials) < len(study.trials)
        words = (on_recorded if is_part else going_on)(plan.folder, overrides)
        next_run(verb, study, plan.shared, words, bool(failed))
        return 1 if failed or not unfinished <= {*stopped} else 130
    following = "report"
    if with_report:
        following = "ui" if plan.shared.tracking.enabled else "sync"
    next_verb(following, looking(plan.folder, overrides))
    return 0


def _print_counts(plan: "Plan", failed: "Collection[PlannedTrial]") -> None:
    """Such as "3 of 4 finished, 1 FAILED"."""
    finished = sum(trial.finished for trial in plan.trials)
    line = f"[bold]{finished} of {len(plan.trials)} finished[/]"
    if failed:
        line += f", [bold red]{len(failed)} FAILED[/]"
    OUT.print(line)


def _print_failed_trial(plan: "Plan", trial: "PlannedTrial", overrides: list[str] | None) -> None:
    """Why the trial failed, and where to read more."""
    print_line(OUT, f"  {trial.name}: {trial.folder.cause() or ''}")
    logs = command("logs", trial.name, *looking(plan.folder, overrides))
    hint = f"  type `{escape(logs)}`, or read {escape(str(trial.folder.error_path))}"
    OUT.print(hint, soft_wrap=True, style="dim")


def _could_have_finished(trial: "PlannedTrial") -> bool:
    """Whether the trial is unfinished, but could have finished.

    One that only scores needs its host's weights.
    """
    from sweeps.preflight.scored_steps import step_problem

    if trial.finished:
        return False
    if trial.host is None:
        return True
    return trial.host.has_weights and trial.can_run and step_problem(trial) is None
