"""``allelse probe -- COMMAND``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sweeps.console import ERR, print_json
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import Json, guarded

if TYPE_CHECKING:
    from sweeps.verbs.probe.resume import Resumption

SECONDS = 60.0
RESUME_SECONDS = 3600.0
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND …", help="The training command, as you would type it."),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        metavar="S",
        help="Stop the command after S seconds (60), or each run of --resume (3600).",
    ),
]
Steps = Annotated[
    int | None,
    typer.Option(
        "--steps",
        metavar="N",
        help="With --resume: train for N steps instead of the task's own number.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Run a task's command twice, once with a kill halfway, and compare the metrics.",
    ),
]


@guarded
def probe(
    command: Words = None,
    seconds: Seconds = None,
    resume: Resume = False,
    steps: Steps = None,
    as_json: Json = False,
) -> int:
    """Run a command for a while, and list the metrics that it writes, ready to paste.

    It runs in a fresh folder with links to your files. If it writes to one of these, your file is
    changed. At the end, `probe` stops it and every
    process that it started. `allelse probe NAME` runs the command of a task, and
    `allelse probe --resume NAME` checks that a resumed run ends with the same metrics.
    """
    if seconds is not None and not seconds > 0:
        raise RefusedError([Problem("--seconds", f"is {seconds:g}", "must be more than 0")])
    if resume:
        return _probe_resume(command or [], seconds or RESUME_SECONDS, steps, as_json)
    return _probe_metrics(command or [], seconds or SECONDS, as_json)


def _probe_metrics(command: Sequence[str], seconds: float, as_json: bool) -> int:
    from sweeps.command_task.lookup import command_names
    from sweeps.command_task.template import typed_command
    from sweeps.verbs.probe.listing import listed_metrics
    from sweeps.verbs.probe.pasted import pasted
    from sweeps.verbs.probe.request import probed_command
    from sweeps.verbs.probe.run import run
    from sweeps.verbs.probe.shown import show
    from sweeps.verbs.probe.workspace import fresh_workspace

    here = Path.cwd()
    words = typed_command(command)
    with fresh_workspace(here) as workspace:
        request = probed_command(words, here, workspace.out)
        if not as_json:
            ERR.print(f"Running for up to {seconds:g} s …", style="dim")
        ran = run(request.words, request.env, workspace, seconds)
    metrics = listed_metrics(ran.points, ran.loose_points)
    if as_json:
        print_json(_json(words, ran, metrics, pasted(metrics)))
    else:
        names = [request.task] if request.task else command_names(here)
        show(words, ran, metrics, names)
    has_failed = bool(ran.code) and not ran.was_ended
    return 1 if has_failed or not pasted(metrics) else 0


def _probe_resume(names: Sequence[str], seconds: float, steps: int | None, as_json: bool) -> int:
    from sweeps.command_task.lookup import command_names, command_task
    from sweeps.verbs.probe.resume import NotComparableError, compare_resumed
    from sweeps.verbs.probe.resume_shown import as_json as resumption_json
    from sweeps.verbs.probe.resume_shown import show_fault, show_resumption

    if steps is not None and not steps > 1:
        raise RefusedError([Problem("--steps", f"is {steps}", "must be more than 1")])
    here = Path.cwd()
    task = command_task(names[0], here) if len(names) == 1 else None
    if task is None:
        names_here = command_names(here)
        fault = f"is {' '.join(names)}" if names else "is missing"
        allowed = (
            f"must be the name of a command's task: {', '.join(names_here) or 'there is none yet'}"
        )
        raise RefusedError([Problem("NAME", fault, allowed)])
    if not as_json:
        ERR.print("Running it in one go, then with a kill halfway …", style="dim")
    try:
        resumption = compare_resumed(task, here, seconds, steps)
    except NotComparableError as error:
        if as_json:
            print_json({"task": task.name, "is_equal": None, "fault": str(error)})
        else:
            show_fault(task.name, error)
        return 1
    _keep(resumption, task.name, here)
    if as_json:
        print_json(resumption_json(task.name, resumption))
    else:
        show_resumption(task.name, resumption)
    return 0 if resumption.is_equal else 1


def _keep(resumption: "Resumption", name: str, here: Path) -> None:
    """Beside the studies, whose tables note it."""
    from sweeps.command_task.code import command_files
    from sweeps.planning.studies.named_study import settings_to_read
    from tracking.table.resumptions import ResumeCheck, digests, keep_check

    if not resumption.compared:
        return
    runs = Path(settings_to_read(None).paths.runs)
    files = digests(command_files(name, here))
    keep_check(runs, ResumeCheck(name, resumption.is_equal, resumption.first, files))


def _json(words: Sequence[str], ran: Any, metrics: Sequence[Any], block: str) -> dict[str, Any]:
    return {
        "command": list(words),
        "seconds": round(ran.seconds, 1),
        "was_ended": ran.was_ended,
        "code": ran.code,
        "metrics": [metric.as_json() for metric in metrics],
        "yaml": block,
        "not_read": list(ran.notices),
        "files": list(ran.files),
        "changed_files": list(ran.changed_files),
        "last_lines": list(ran.lines),
    }
