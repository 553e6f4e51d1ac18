"""Plans and studies as tables for a terminal and as JSON for scripts; how a run ended, and the next command."""

from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from sweeps.console import OUT, next_verb
from sweeps.planning.cautions import cautions
from sweeps.planning.naming import DECODING, PLACES, SELECTING, chosen, going_on
from sweeps.planning.plan import Plan
from sweeps.planning.recorded import nested, read_record
from tracking import formats
from tracking import table as tables
from tracking.damage import unless_damaged
from tracking.lag import Lag
from tracking.study import Study, Trial, read_study
from transformer.config import DecodeConfig
from transformer.schema import parse
from transformer.versions import settled


def plan_table(plan: Plan) -> Table:
    """What will run and what it costs."""
    computed = "params and FLOPs are computed; FLOPs assume full batches of the corpus's mean length"
    caption = "\n".join(map(escape, [computed, *plan.composition.notes, *plan.composition.names]))
    caption += "".join(f"\n[yellow]{escape(line)}[/]" for line in cautions(plan))
    table = Table(
        title=escape(f"Plan of {plan.folder.name}"), title_justify="left", box=box.SIMPLE_HEAD, caption=caption
    )
    table.caption_justify = "left"
    table.add_column("row", no_wrap=True)
    table.add_column("change", overflow="fold", max_width=44)
    for name in ("seed", "steps", "params", "FLOPs"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for planned, following in zip(plan.trials, [*plan.trials[1:], None], strict=True):
        trial = planned.trial
        costs = [formats.millions(planned.params), formats.flops(planned.flops)]
        numbers = [str(trial.seed), f"{planned.settings.train.steps}", *costs]
        last = following is None or following.trial.group != trial.group
        table.add_row(escape(trial.row), escape(trial.change), *numbers, _plan_state(planned), end_section=last)
    flops = formats.flops(sum(planned.flops for planned in plan.pending))
    table.add_row("to run", f"{len(plan.pending)} of {len(plan.trials)} trials", "", "", "", flops, "")
    return table


def plan_json(plan: Plan) -> list[dict[str, Any]]:
    unscaled = {row.name: row.at_paper_size for row in plan.composition.rows}
    return [
        {
            "row": planned.trial.row,
            "seed": planned.trial.seed,
            "key": planned.trial.key,
            "group": planned.trial.group,
            "change": planned.trial.change,
            "at_paper_size": unscaled[planned.trial.row],
            "steps": planned.settings.train.steps,
            "params": planned.params,
            "flops": planned.flops,
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
    for name in ("row", "seed", "state", "step", "attempts", "dev PPL", ""):
        table.add_column(name, justify="right" if name in ("seed", "step", "attempts", "dev PPL") else "left")
    for line in lines:
        step, ppl = line["step"], formats.number(line["dev_ppl"], 2)
        seen = ["" if step is None else str(step), str(line["attempts"]), ppl]
        style = {"failed": "red", "damaged": "red", "finished": "green", "missing": "dim"}.get(line["state"])
        table.add_row(escape(line["row"]), str(line["seed"]), line["state"], *seen, escape(line["note"]), style=style)
    return table


def status_json(study: Study, lag: Lag) -> list[dict[str, Any]]:
    return [_status(study, trial, lag) for trial in study.trials]


def _status(study: Study, trial: Trial, lag: Lag) -> dict[str, Any]:
    folder = study.trial_folder(trial)
    journal, attempts = unless_damaged(folder.journal, []), unless_damaged(folder.attempts, [])
    ppl = next((r.metrics["dev/ppl"] for r in reversed(journal) if "dev/ppl" in r.metrics), None)
    return {
        "row": trial.row,
        "seed": trial.seed,
        "key": trial.key,
        "state": "to score again" if _scored_with_other_settings(study, trial) else folder.state(trial.key),
        "step": journal[-1].step if journal else None,
        "attempts": len(attempts),
        "dev_ppl": ppl,
        "synced_step": lag.steps.get(trial.key),
        "note": "; ".join(filter(None, [folder.cause(), *(error.note for error in folder.damage())])),
    }


def _scored_with_other_settings(study: Study, trial: Trial) -> bool:
    """Whether the trial is finished, but scored with other ``decode`` settings than the study has now."""
    result = study.trial_folder(trial).finished_result(trial.key)
    if result is None or not study.settings:
        return False
    record = read_record(study)
    values = nested(record.expected(trial.row, record.settings) or record.settings)
    decode, _ = parse(DecodeConfig, values["decode"])
    return decode is not None and any(scores["decode"] != settled(decode) for scores in result["scores"].values())


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
    OUT.print(tables.render(study, tables.table(study), OUT.width))
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
