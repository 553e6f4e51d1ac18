"""How a run ended: its table, the failures with their causes, and the next command."""

from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.naming import PLACES, SELECTING, chosen, going_on
from sweeps.planning.plan import Plan
from tracking import table as tables
from tracking.study import read_study


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
