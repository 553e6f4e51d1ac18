"""The verbs that follow and steer a running sweep from another terminal or machine: ``stop``, ``logs``."""

from typing import Annotated

import typer
from rich.markup import escape

from sweeps.commands.guarded import guarded
from sweeps.console import ERR, OUT, next_verb
from sweeps.planning.naming import looking
from tracking.words import shell_line

Arguments = Annotated[list[str] | None, typer.Argument(metavar="[TRIAL…] [KEY=VALUE …]", help="Trials, overrides.")]


@guarded
def stop(arguments: Arguments = None) -> None:
    """Stop a running sweep, or only the named trials, after the current step; from any machine of the study."""
    from sweeps.commands.following import named_trials, request

    trials, study, overrides, _ = named_trials(arguments or [], running=True)
    for line in request(study, trials, overrides):
        OUT.print(escape(line), soft_wrap=True)
    next_verb("status", [*looking(study.folder, overrides), *["--watch"] * (not trials)])


@guarded
def logs(
    arguments: Arguments = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines until the trial ends.")] = False,
) -> None:
    """Print what the processes of a trial printed, and why it failed."""
    from sweeps.commands.following import named_trials, one_trial, shown_log, still_runs

    trials, study, overrides, notices = named_trials(arguments or [])
    trial = one_trial(study, trials)
    follow = follow and still_runs(study, trial)
    if follow:
        watch = shell_line(["allelse", "status", *looking(study.folder, overrides), "--watch"])
        notices = (*notices, f"Follows the log until the trial ends, or until Ctrl-C; `{watch}` shows steps and scores")
    for notice in notices:
        ERR.print(escape(notice), style="dim", soft_wrap=True)
    for text in shown_log(study, trial, follow):
        OUT.file.write(text)
        OUT.file.flush()
    if not follow:
        next_verb("status", looking(study.folder, overrides))
