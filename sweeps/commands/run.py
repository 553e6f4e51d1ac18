"""The verbs that run a study: ``plan``, ``sweep``, ``train``."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.markup import escape

from sweeps.commands.arguments import Add, Check, Json, Multirun, OverrideList
from sweeps.commands.guarded import guarded
from sweeps.console import ERR, OUT, next_verb, printing_ends_nothing, typed_command
from sweeps.planning.naming import looking


@guarded
def plan(
    overrides: OverrideList = None,
    add: Add = False,
    check: Check = False,
    as_json: Json = False,
    _multirun: Multirun = False,
) -> None:
    """Show what a sweep would run and cost, for a recorded study or for a new one. Starts nothing."""
    from sweeps.planning.continued import plan_sweep

    make = partial(plan_sweep, overrides or [], add, "plan")
    planned = _checked(make, overrides) if check else make()
    from sweeps.show import overrides_to_run, plan_json, plan_table

    if as_json:
        print(json.dumps(plan_json(planned), indent=1, ensure_ascii=False))
        return
    OUT.print(plan_table(planned))
    if check:
        OUT.print("[green]Checked[/]: places, tracking store, machines, memory and disk")
    if planned.running:
        next_verb("status", [*looking(planned.folder, overrides), "--watch"])
    elif planned.pending:
        next_verb("sweep", overrides_to_run(planned, overrides))
    else:
        next_verb("table", looking(planned.folder, overrides))


@guarded
def sweep(overrides: OverrideList = None, add: Add = False, _multirun: Multirun = False) -> int:
    """Run every unfinished row. Run the command again to resume where it stopped.

    A study that has begun keeps its recorded rows, seeds and settings; sweep.rows and sweep.seeds select from them.
    """
    from sweeps.planning.continued import plan_sweep

    planned = _checked(partial(plan_sweep, overrides or [], add), overrides)
    from sweeps.running.sweep import run_plan  # loads what no refusal needs
    from sweeps.show import show_outcome

    for note in planned.composition.notes:
        OUT.print(escape(note), style="dim", soft_wrap=True)
    _tell_changes(planned)
    with printing_ends_nothing():
        stopped = run_plan(planned, typed_command(), OUT)
        return show_outcome(planned, "sweep", overrides, stopped)


@guarded
def train(overrides: OverrideList = None, add: Add = False) -> int:
    """Run one row (row=NAME) in this process, without Ray.

    Its seed is sweep.seeds=[N], or the task's own key for it, such as train.seed=N.
    """
    from sweeps.planning.continued import plan_row

    planned = _checked(partial(plan_row, overrides or [], add), overrides, one_process=True)
    from sweeps.running.here import run_single  # loads torch, which no refusal needs
    from sweeps.show import show_outcome

    _tell_changes(planned)
    with printing_ends_nothing():
        run_single(planned, typed_command(), OUT)
        return show_outcome(planned, "train", overrides)


def _tell_changes(planned: Any) -> None:
    from sweeps.show import plan_changes

    for line in plan_changes(planned):
        ERR.print(escape(line), style="yellow", soft_wrap=True)


def _checked(make: Callable[[], Any], overrides: list[str] | None, one_process: bool = False) -> Any:
    """The plan, after all that can be known before a start was looked at; prints what cannot be known yet."""
    from sweeps.preflight.checks import checked

    planned, notices = checked(make, overrides or [], one_process)
    for notice in notices:
        ERR.print(escape(notice), style="yellow", soft_wrap=True)
    return planned
