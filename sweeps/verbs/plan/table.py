"""The table of `allelse plan`, and its caption. A line holds the trials of one row in one state."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sweeps.config.files import BASE
from sweeps.config.schema import task_card
from sweeps.console import OUT
from sweeps.verbs.plan.costs import cost_columns, cost_lines, cost_totals, precision_lines
from tracking.study import weights_fault
from tracking.table.caption import size_note
from tracking.table.text import LEAST, Cell, Column, TextTable, lines_of, terminal, text_column
from tracking.words import flops, grouped, listed, millions, parameters, ranges

if TYPE_CHECKING:
    from sweeps.costs.estimate import Estimate
    from sweeps.planning.plan import Plan
    from sweeps.planning.planned_trial import PlannedTrial

LEAST_COLUMNS = 3
"""Columns that a plan always has, however narrow the terminal is."""
UNKNOWN_COST = "unknown"
TOTAL = "to run"
TAKEN_STATES = {"missing": "waiting", "failed": "waiting", "interrupted": "running or waiting"}
"""The state of a trial that a process holds, by its last one. An interrupted trial may already run
on another machine."""


@dataclass(frozen=True)
class Line:
    """The trials of one row that are in the same state.

    ``change`` is what the row changes; empty if a line above says it.
    """

    trials: "list[PlannedTrial]"
    change: str
    state: str

    @property
    def first(self) -> "PlannedTrial":
        return self.trials[0]

    @property
    def seeds(self) -> str:
        return ranges(sorted(planned.trial.seed for planned in self.trials))


def plan_table(plan: "Plan", estimate: "Estimate") -> Table:
    """What will run and what it costs."""
    lines = _lines(plan)
    columns = _columns(plan, estimate, lines)
    totals = [TOTAL, *_totals(plan), *cost_totals(estimate, OUT.width), ""]
    cells = (*lines_of(columns, lines), tuple(Cell(total) for total in totals))
    groups = (*(line.first.trial.group for line in lines), TOTAL)
    title = f"Plan of {plan.folder.name}"
    text_table = TextTable(title, columns, cells, groups, names_groups=False)
    table = terminal(text_table, OUT.width, LEAST_COLUMNS, LEAST)
    table.caption = _caption(plan, estimate, lines)
    return table


def _lines(plan: "Plan") -> list[Line]:
    """In the order of the plan."""
    held_trials = {planned.name for planned in plan.running}
    trials_of_line = grouped(
        ((planned.trial.row, _state(plan, planned, held_trials)), planned)
        for planned in plan.trials
    )
    lines = list[Line]()
    shown_rows = set[str]()
    for (row, state), trials in trials_of_line.items():
        change = "" if row in shown_rows else trials[0].trial.change
        lines.append(Line(trials, change, state))
        shown_rows.add(row)
    return lines


def _columns(plan: "Plan", estimate: "Estimate", lines: Sequence[Line]) -> tuple[Column[Line], ...]:
    params = millions if task_card(plan.task).millions else parameters
    seed_head = "seeds" if _has_sums(lines) else "seed"
    return (
        text_column("row", lambda line: line.first.trial.row, "name"),
        text_column("change", attrgetter("change")),
        text_column("seed", attrgetter("seeds"), "number", seed_head),
        text_column("steps", lambda line: str(line.first.stated_steps or UNKNOWN_COST), "number"),
        text_column(
            "params", lambda line: params(line.first.costs.params) or UNKNOWN_COST, "number"
        ),
        text_column(
            "flops", lambda line: flops(_flops(line.trials)) or UNKNOWN_COST, "number", "FLOPs"
        ),
        *cost_columns(estimate, OUT.width, attrgetter("trials")),
        text_column("state", attrgetter("state"), "name"),
    )


def _has_sums(lines: Sequence[Line]) -> bool:
    return any(len(line.trials) > 1 for line in lines)


def _flops(trials: "Sequence[PlannedTrial]") -> float | None:
    """The sum of all trials; None if that of one is unknown."""
    total = 0.0
    for planned in trials:
        if planned.costs.flops is None:
            return None
        total += planned.costs.flops
    return total


def _state(plan: "Plan", planned: "PlannedTrial", held_trials: Collection[str]) -> str:
    """What a sweep will do with the trial.

    ``held_trials``: the names of trials that a process runs, or will run.
    """
    if planned.finished:
        return "finished"
    source = plan.sources.get(planned.name)
    if source is not None:
        origin = f"taken from {source.study.name}"
        return origin if source.is_scored else f"{origin}, to score"
    is_held = planned.name in held_trials
    if planned.host is not None and not is_held:
        host = planned.host
        fault = "" if planned.can_run else weights_fault(host.folder, host.trial.key)
        return fault or f"scores {host.trial.row}'s weights"
    if planned.state == "finished":
        return "to score again"
    if is_held:
        return TAKEN_STATES.get(planned.state, planned.state)
    return planned.state.replace("missing", "to run")


def _totals(plan: "Plan") -> list[str]:
    """Such as "2 of 4 trials, 1 running or waiting", and the FLOPs of these two."""
    running = {planned.name for planned in plan.running}
    to_run = [planned for planned in plan.pending if planned.name not in running]
    scoring = sum(planned.host is not None for planned in to_run)
    words = f"{len(to_run)} of {len(plan.trials)} trials"
    if scoring:
        words += f", {scoring} of them only {'scores' if scoring == 1 else 'score'}"
    if running:
        words += f", {len(running)} running or waiting"
    if plan.to_take:
        words += f", {len(plan.to_take)} taken"
    to_train = [planned for planned in to_run if planned.name not in plan.sources]
    total = ""
    if to_train:
        total = flops(_flops(to_train)) or UNKNOWN_COST
    return [words, "", "", "", total]


def _caption(plan: "Plan", estimate: "Estimate", lines: Sequence[Line]) -> str:
    """The notes below the table, then the costs, then the warnings in yellow."""
    from sweeps.planning.cautions import cautions
    from sweeps.planning.plan_lock import planned_lock_line

    warnings = [*cautions(plan), *precision_lines(plan)]
    rows = {planned.trial.row for planned in plan.trials}
    notes = [
        *_cost_notes(plan),
        *_sum_notes(estimate, lines),
        *_both_notes(plan),
        *_reference_notes(plan),
        size_note(plan.sizes),
        *plan.composition.notes,
        *plan.composition.names(rows),
        *plan.not_taken,
    ]
    lock_line = planned_lock_line(plan)
    if lock_line not in warnings:
        notes.append(lock_line)
    text = "\n".join(escape(note) for note in notes if note)
    for line, is_warning in cost_lines(estimate):
        text += f"\n{_yellow(line)}" if is_warning else f"\n{escape(line)}"
    for warning in warnings:
        text += f"\n{_yellow(warning)}"
    return text


def _yellow(line: str) -> str:
    return f"[yellow]{escape(line)}[/]"


def _cost_notes(plan: "Plan") -> list[str]:
    """How the known costs are computed; empty if all are unknown."""
    costs = [planned.costs for planned in plan.trials if planned.host is None]
    names = []
    if any(cost.params is not None for cost in costs):
        names.append("params")
    if any(cost.flops is not None for cost in costs):
        names.append("FLOPs")
    if not names:
        return []
    return [plan.task.costs_note or f"{' and '.join(names)} are computed"]


def _sum_notes(estimate: "Estimate", lines: Sequence[Line]) -> list[str]:
    """A note if a line has several seeds, since parameters and steps are those of one trial."""
    if not _has_sums(lines):
        return []
    names = []
    if any(_flops(line.trials) is not None for line in lines):
        names.append("FLOPs")
    if estimate.times:
        names.append("time")
    if not names:
        return []
    return [f"Sums over the seeds of a line: {listed(names)}"]


def _both_notes(plan: "Plan") -> list[str]:
    """A line on rows that are trained because they also change keys that decide training."""
    from sweeps.planning.hosts import changing_both

    trained = {planned.trial.row for planned in plan.trials if planned.host is None}
    rows = [row for row in changing_both(plan.composition) if row in trained]
    if not rows:
        return []
    verb = "changes" if len(rows) == 1 else "change"
    keys = "keys that train as well as keys that score"
    return [f"Trained, not only scored: {', '.join(rows)} {verb} {keys}"]


def _reference_notes(plan: "Plan") -> list[str]:
    """Such as "Differences: wide-relu and wide-tanh from wide; all other rows from base."; nothing
    if all are from base."""
    rows_of_reference: dict[str, list[str]] = {}
    for row, reference in plan.references.items():
        rows_of_reference.setdefault(reference, []).append(row)
    if not rows_of_reference:
        return []
    parts = [f"{listed(rows)} from {name}" for name, rows in rows_of_reference.items()]
    return [f"Differences: {'; '.join([*parts, f'all other rows from {BASE}'])}."]
