"""Plans and studies as tables for a terminal and as JSON for scripts; how a run ended, and the next command."""

from pathlib import Path
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.console import OUT, next_verb
from sweeps.planning.naming import DECODING, PLACES, SELECTING, chosen, going_on
from sweeps.planning.plan import Plan, cautions
from sweeps.planning.recorded import nested, read_record
from sweeps.planning.schema import Schema
from sweeps.planning.task_card import task_card
from sweeps.planning.task_files import changes
from sweeps.planning.task_named import source_of_study
from tracking import formats
from tracking import table as tables
from tracking.damage import unless_damaged
from tracking.findings import find, with_tested
from tracking.lag import Lag
from tracking.seeds_needed import seeds_needed_lines
from tracking.study import Study, Trial, read_study
from transformer.schema import RefusedError

UNKNOWN = "unknown"


def plan_table(plan: Plan) -> Table:
    """What will run and what it costs."""
    needed = seeds_needed_lines(plan.before) if plan.before else []
    notes = [plan.task.costs_note, *plan.composition.notes, *plan.composition.names, *needed]
    caption = "\n".join(map(escape, notes))
    caption += "".join(f"\n[yellow]{escape(line)}[/]" for line in (*cautions(plan), *plan_changes(plan)))
    table = Table(
        title=escape(f"Plan of {plan.folder.name}"), title_justify="left", box=box.SIMPLE_HEAD, caption=caption
    )
    table.caption_justify = "left"
    table.add_column("row", no_wrap=True)
    table.add_column("change", overflow="fold", max_width=44)
    for name in ("seed", "steps", "params", "FLOPs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    params = formats.millions if task_card(plan.task).millions else formats.parameters
    for planned, following in zip(plan.trials, [*plan.trials[1:], None], strict=True):
        trial = planned.trial
        costs = [params(planned.costs.params) or UNKNOWN, formats.flops(planned.costs.flops) or UNKNOWN]
        numbers = [str(trial.seed), f"{planned.steps}", *costs]
        last = following is None or following.trial.group != trial.group
        table.add_row(escape(trial.row), escape(trial.change), *numbers, _plan_state(planned), end_section=last)
    flops = formats.flops(_total_flops(plan)) or UNKNOWN
    table.add_row("to run", f"{len(plan.pending)} of {len(plan.trials)} trials", "", "", "", flops, "")
    return table


def plan_changes(plan: Plan) -> list[str]:
    """What changed in the task's files since trials of the plan were trained."""
    return list(changes(plan.composition.shared.source, ((each.trial.name, each.folder) for each in plan.trials)))


def _total_flops(plan: Plan) -> float | None:
    """Of the pending trials; None if that of any is unknown."""
    known = [planned.costs.flops for planned in plan.pending]
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


def status_table(study: Study, lines: list[dict[str, Any]]) -> Table:
    """Where each trial stands, from the lines of ``status_json``."""
    finished = sum(line["state"] == "finished" for line in lines)
    title = f"{study.name}: {finished} of {len(lines)} finished"
    table = Table(title=escape(title), title_justify="left", box=box.SIMPLE_HEAD)
    headline = study.task.headline
    score = escape(f"{headline.set} {headline.label}")
    for name in ("row", "seed", "state", "step", "attempts", score, ""):
        table.add_column(name, justify="right" if name in ("seed", "step", "attempts", score) else "left")
    for line in lines:
        step, value = line["step"], headline.text(line[f"{headline.set}_{headline.name}"])
        seen = ["" if step is None else str(step), str(line["attempts"]), value]
        style = {"failed": "red", "damaged": "red", "finished": "green", "missing": "dim"}.get(line["state"])
        table.add_row(escape(line["row"]), str(line["seed"]), line["state"], *seen, escape(line["note"]), style=style)
    return table


def status_json(study: Study, lag: Lag) -> list[dict[str, Any]]:
    return [_status(study, trial, lag) for trial in study.trials]


def _status(study: Study, trial: Trial, lag: Lag) -> dict[str, Any]:
    folder = study.trial_folder(trial)
    journal, attempts = unless_damaged(folder.journal, []), unless_damaged(folder.attempts, [])
    headline = study.task.headline
    point = f"{headline.set}/{headline.name}"
    seen = (report.metrics[point] for report in reversed(journal) if point in report.metrics)
    scores = (folder.finished_result(trial.key) or {}).get("scores", {}).get(headline.set, {})
    return {
        "row": trial.row,
        "seed": trial.seed,
        "key": trial.key,
        "state": "to score again" if _scored_with_other_settings(study, trial) else folder.state(trial.key),
        "step": journal[-1].step if journal else None,
        "attempts": len(attempts),
        f"{headline.set}_{headline.name}": next(seen, scores.get(headline.name)),
        "synced_step": lag.steps.get(trial.key),
        "note": "; ".join(filter(None, [folder.cause(), *(error.note for error in folder.damage())])),
    }


def _scored_with_other_settings(study: Study, trial: Trial) -> bool:
    """Whether the trial is finished, but scored with other settings than the study has now."""
    result = study.trial_folder(trial).finished_result(trial.key)
    if result is None or not study.settings:
        return False
    try:
        source = source_of_study(study, Path.cwd())
        record, schema = read_record(study, source), Schema.of(source.task)
        config = schema.config(nested(record.expected(trial.row, record.settings) or record.settings))
    except RefusedError:  # a task that cannot be imported from here: its studies can still be read
        return False
    return any(scores["decode"] != schema.scoring(config) for scores in result["scores"].values())


def _plan_state(planned: Any) -> str:
    if planned.finished:
        return "finished"
    return "to score again" if planned.state == "finished" else planned.state.replace("missing", "to run")


def overrides_to_run(planned: Plan, overrides: list[str] | None) -> list[str]:
    """The overrides that run a displayed plan: all typed ones for a new study, only changes for a recorded one."""
    if planned.before is None or not planned.before.begun:
        return [*(overrides or []), *["--add"] * bool(planned.added)]
    selected = SELECTING if planned.partial or planned.added else ()
    return [*going_on(planned.folder, overrides, DECODING, selected), *["--add"] * bool(planned.added)]


def show_outcome(planned: Plan, verb: str, overrides: list[str] | None) -> int:
    """Print how the plan that ``verb`` ran ended. Returns the exit code: 0 only if every trial is finished."""
    finished = sum(trial.finished for trial in planned.trials)
    failed = [trial for trial in planned.trials if trial.state == "failed"]
    study = read_study(planned.folder)
    rows = tables.table(study)
    findings = find(study, rows, tables.BASE)
    OUT.print(tables.render(study, with_tested(rows, study.task, findings), OUT.width, findings=findings))
    OUT.print(f"[bold]{finished} of {len(planned.trials)} finished[/]", end="")
    OUT.print(f", [bold red]{len(failed)} FAILED[/]" if failed else "")
    for trial in failed:
        OUT.print(f"  {trial.trial.name}: {escape(trial.folder.cause() or '')}", soft_wrap=True)
        OUT.print(f"  see {escape(str(trial.folder.error_path))}", soft_wrap=True, style="dim")
    if finished < len(planned.trials):
        selected = SELECTING if len(planned.trials) < len(study.trials) else ()
        next_verb(verb, going_on(planned.folder, overrides, selected))
        return 1
    next_verb("ui", chosen(overrides, PLACES))
    return 0
