"""Plans as tables for a terminal and as JSON for scripts; how a run ended, and the next command."""

from collections.abc import Collection, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from sweeps.config.schema import task_card
from sweeps.console import OUT, next_verb
from sweeps.planning.named_study import going_on
from sweeps.planning.naming import DECODING, SELECTING, looking
from sweeps.planning.plan import Plan, PlannedTrial, cautions
from sweeps.status.tables import ONE_LINE_EACH, counted
from tracking.statistics.findings import find
from tracking.statistics.rows import BASE, table
from tracking.study import read_study
from tracking.table.caption import size_note
from tracking.table.layout import shown
from tracking.table.text import LEAST, Cell, Column, TextTable, lines_of, said, terminal
from tracking.words import flops, millions, parameters

UNKNOWN_COST = "unknown"
FEWEST = 4
"""Columns that a plan always has, however narrow the terminal is."""


def plan_table(plan: Plan) -> Table:
    """What will run and what it costs: a line per trial, or per row of a large study."""
    names = plan.composition.names({planned.trial.row for planned in plan.trials})
    notes = [
        *_costs_notes(plan),
        *filter(None, [size_note(plan.sizes)]),
        *plan.composition.notes,
        *names,
    ]
    caption = "\n".join(map(escape, notes))
    caption += "".join(f"\n[yellow]{escape(line)}[/]" for line in cautions(plan))
    lines, taken = _plan_lines(plan), {planned.trial.name for planned in plan.running}
    params = millions if task_card(plan.task).millions else parameters
    columns: tuple[Column[list[PlannedTrial]], ...] = (
        said("row", lambda line: line[0].trial.row, "name"),
        said("change", lambda line: line[0].trial.change),
        said("seed", _seeds, "number", "seeds" if len(lines) < len(plan.trials) else "seed"),
        said("steps", lambda line: str(line[0].steps), "number"),
        said("params", lambda line: params(line[0].costs.params) or UNKNOWN_COST, "number"),
        said("flops", lambda line: flops(_flops(line)) or UNKNOWN_COST, "number", "FLOPs"),
        said("state", lambda line: _states([_plan_state(each, taken) for each in line]), "name"),
    )
    cells = (*lines_of(columns, lines), tuple(map(Cell, ["to run", *_total(plan), ""])))
    groups = (*(line[0].trial.group for line in lines), "to run")
    table = terminal(
        TextTable(f"Plan of {plan.folder.name}", columns, cells, groups, names_groups=False),
        OUT.width,
        FEWEST,
        LEAST,
    )
    table.caption = caption
    return table


def _states(states: Sequence[str]) -> str:
    return counted(states) if len(states) > 1 else states[0]


def _costs_notes(plan: Plan) -> list[str]:
    """How the known costs come about; nothing if all are unknown."""
    params = ["params"] * any(planned.costs.params is not None for planned in plan.trials)
    known = params + ["FLOPs"] * any(planned.costs.flops is not None for planned in plan.trials)
    return [plan.task.costs_note or f"{' and '.join(known)} are computed"] if known else []


def _total(plan: Plan) -> list[str]:
    """Such as "2 of 4 trials, 1 running or waiting", with the FLOPs of the two."""
    running = {planned.trial.name for planned in plan.running}
    to_run = [planned for planned in plan.pending if planned.trial.name not in running]
    words = f"{len(to_run)} of {len(plan.trials)} trials"
    words += f", {len(running)} running or waiting" if running else ""
    return [words, "", "", "", flops(_flops(to_run)) or UNKNOWN_COST]


def _plan_lines(plan: Plan) -> list[list[PlannedTrial]]:
    """The trials of each line."""
    if len(plan.trials) <= ONE_LINE_EACH:
        return [[planned] for planned in plan.trials]
    rows: dict[str, list[PlannedTrial]] = {}
    for planned in plan.trials:
        rows.setdefault(planned.trial.row, []).append(planned)
    return list(rows.values())


def _seeds(line: list[PlannedTrial]) -> str:
    """The seed, or how many there are."""
    return str(line[0].trial.seed if len(line) == 1 else len(line))


def _flops(trials: Sequence[PlannedTrial]) -> float | None:
    """In total; None if that of any is unknown."""
    known = [planned.costs.flops for planned in trials]
    return None if None in known else sum(flops for flops in known if flops is not None)


def plan_json(plan: Plan) -> list[dict[str, Any]]:
    unscaled = {row.name: row.before_scaling for row in plan.composition.rows}
    return [
        {
            "row": planned.trial.row,
            "seed": planned.trial.seed,
            "key": planned.trial.key,
            "group": planned.trial.group,
            "change": planned.trial.change,
            "before_scaling": unscaled[planned.trial.row],
            "steps": planned.steps,
            "params": planned.costs.params,
            "flops": planned.costs.flops,
            "finished": planned.finished,
            "state": planned.state,
        }
        for planned in plan.trials
    ]


def _plan_state(planned: PlannedTrial, taken: Collection[str]) -> str:
    """``taken`` has the names of trials that a process runs or keeps for its further work."""
    if planned.finished:
        return "finished"
    if planned.state == "finished":
        return "to score again"
    if planned.trial.name in taken:  # one that was interrupted may run on another machine by now
        shown = {"missing": "waiting", "failed": "waiting", "interrupted": "running or waiting"}
        return shown.get(planned.state, planned.state)
    return planned.state.replace("missing", "to run")


def overrides_to_run(planned: Plan, overrides: list[str] | None) -> list[str]:
    """The overrides that run a displayed plan: all typed ones for a new study, only changes for a recorded one."""
    if planned.before is None or not planned.before.begun:
        return [*(overrides or []), *["--add"] * bool(planned.added)]
    selected = SELECTING if planned.partial or planned.added else ()
    return [*going_on(planned.folder, overrides, DECODING, selected), *["--add"] * bool(planned.added)]


def show_outcome(planned: Plan, verb: str, overrides: list[str] | None, stopped: Collection[str] = frozenset()) -> int:
    """Print how the plan that ``verb`` ran ended. Returns the exit code.

    It is 0 only if every trial is finished, and 130 if none failed and all others were ``stopped`` as asked.
    """
    unfinished = {trial.trial.name for trial in planned.trials if not trial.finished}
    finished = len(planned.trials) - len(unfinished)
    failed = [trial for trial in planned.trials if trial.state == "failed"]
    study = read_study(planned.folder)
    rows = table(study)
    findings = find(study, rows, BASE)
    OUT.print(shown(study, rows, OUT.width, findings=findings))
    OUT.print(f"[bold]{finished} of {len(planned.trials)} finished[/]", end="")
    OUT.print(f", [bold red]{len(failed)} FAILED[/]" if failed else "")
    for trial in failed:
        OUT.print(f"  {trial.trial.name}: {escape(trial.folder.cause() or '')}", soft_wrap=True)
        OUT.print(f"  see {escape(str(trial.folder.error_path))}", soft_wrap=True, style="dim")
    if unfinished:
        selected = SELECTING if len(planned.trials) < len(study.trials) else ()
        next_verb(verb, going_on(planned.folder, overrides, selected))
        return 1 if failed or not unfinished <= {*stopped} else 130
    next_verb("ui", looking(planned.folder, overrides))
    return 0
