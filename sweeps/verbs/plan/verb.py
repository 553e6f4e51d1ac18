"""The verb ``plan``: what a sweep would run, and what it would cost."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps.config.files import BASE
from sweeps.console import OUT, next_verb, print_json
from sweeps.planning.studies.study_overrides import looking, on_recorded
from sweeps.verbs.command import (
    Add,
    ChangedCode,
    Json,
    Multirun,
    OverrideList,
    guarded,
    next_copy,
    refuse_without_extra,
)
from sweeps.verbs.plan.costs import calibrated, cluster_nodes, cost_fields
from sweeps.verbs.plan.table import plan_table
from sweeps.verbs.run import checked_plan
from tracking.published_study import is_published

if TYPE_CHECKING:
    from sweeps.costs.estimate import Estimate
    from sweeps.planning.plan import Plan

Checking = Annotated[
    bool,
    typer.Option("--check", help="Check folders, addresses and machines, as sweep does first."),
]
Calibrating = Annotated[
    bool,
    typer.Option(
        "--calibrate",
        help="Train three rows for 20 to 90 s each and score them, to predict hours and memory.",
    ),
]
Locking = Annotated[
    bool,
    typer.Option(
        "--lock",
        help="Write rows, seeds, metrics and tests to lock.json, before the first result exists.",
    ),
]
LockedMetrics = Annotated[
    list[str] | None, typer.Option("--metric", help="Lock this metric. Repeat it for several.")
]
LockedSets = Annotated[
    list[str] | None, typer.Option("--set", help="Lock scores on this set. Repeat it for several.")
]


@guarded
def plan(
    overrides: OverrideList = None,
    add: Add = False,
    changed_code: ChangedCode = False,
    check: Checking = False,
    multirun: Multirun = False,
    calibrate: Calibrating = False,
    lock: Locking = False,
    metrics: LockedMetrics = None,
    sets: LockedSets = None,
    as_json: Json = False,
) -> int:
    """Show what a sweep would run and cost, for a new study or a recorded one.

    Nothing is started, except that --calibrate times some steps. With --lock, you record what
    the study will be.
    """
    from sweeps.costs.estimate import estimate_of
    from sweeps.planning.continuation import plan_sweep
    from sweeps.preflight.scored_steps import refuse_missing_steps
    from sweeps.verbs.plan.lock import locked, refuse_options_without_lock

    if not lock:
        refuse_options_without_lock(metrics or [], sets or [])
    compose = partial(plan_sweep, overrides or [], add, "plan", changed_code=changed_code)
    planned = checked_plan(compose, overrides) if check else compose()
    refuse_missing_steps(planned)
    if calibrate:
        refuse_without_extra()
        if not calibrated(planned):
            return 1
    lock_text = locked(planned, metrics or [], sets or []) if lock else ""
    estimate = estimate_of(planned, cluster_nodes(planned) if check else None)
    if as_json:
        print_json(_plan_json(planned, estimate))
        return 0
    OUT.print(plan_table(planned, estimate))
    if lock_text:
        OUT.print(lock_text, soft_wrap=True)
    if check:
        store = ", tracking store" if planned.composition.shared.tracking.enabled else ""
        OUT.print(f"[green]Checked[/]: folders{store}, machines, memory and disk")
    _print_next(planned, overrides, changed_code)
    return 0


def _print_next(plan: "Plan", overrides: list[str] | None, changed_code: bool) -> None:
    """Print the command that watches, runs or shows the planned study."""
    reading = looking(plan.folder, overrides)
    if plan.running:
        next_verb("status", [*reading, "--watch"])
    elif is_published(plan.folder):
        next_copy(plan.folder)
    elif plan.pending or plan.to_take:
        words = _overrides_to_run(plan, overrides)
        next_verb("sweep", [*words, "--changed-code"] if changed_code else words)
    else:
        next_verb("table", reading)


def _overrides_to_run(plan: "Plan", overrides: list[str] | None) -> list[str]:
    """The overrides that run the plan: all of a new study, only the changes of a recorded one."""
    from sweeps.planning.studies.named_study import going_on

    words = list(overrides or [])
    if plan.before is not None and plan.before.begun:
        if plan.partial or plan.added:
            words = on_recorded(plan.folder, overrides)
        else:
            words = going_on(plan.folder, overrides, scores_again=True)
    return [*words, "--add"] if plan.added else words


def _plan_json(plan: "Plan", estimate: "Estimate") -> list[dict[str, Any]]:
    """One object per trial."""
    costs_of = cost_fields(estimate)
    unscaled = {row.name: row.before_scaling for row in plan.composition.rows}
    lines: list[dict[str, Any]] = []
    for planned in plan.trials:
        trial = planned.trial
        source = plan.sources.get(trial.name)
        line = {
            "row": trial.row,
            "seed": trial.seed,
            "key": trial.key,
            "group": trial.group,
            "change": trial.change,
            "before_scaling": unscaled[trial.row],
            "steps": planned.stated_steps,
            "params": planned.costs.params,
            "flops": planned.costs.flops,
            "finished": planned.finished,
            "state": planned.state,
            "weights": trial.weights,
            "taken_from": None if source is None else str(source.record),
        }
        if plan.references:
            line["reference"] = plan.references.get(trial.row, BASE)
        lines.append(line | costs_of(trial.name))
    return lines
