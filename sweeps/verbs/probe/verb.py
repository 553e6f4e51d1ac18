"""``allelse probe -- COMMAND``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sweeps.console import ERR, print_json
from sweeps.problems import Problem, RefusedError
from sweeps.verbs.command import Json, guarded

SECONDS = 60.0
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND …", help="The training command, as you would type it."),
]
Seconds = Annotated[
    float, typer.Option("--seconds", metavar="S", help="How long it may run, then it is ended.")
]


@guarded
def probe(command: Words = None, seconds: Seconds = SECONDS, as_json: Json = False) -> int:
    """Run a command for a while, and list the metrics that it writes, ready to paste.

    It runs in a fresh folder that links to your files, and is ended gently with all that it has
    started. Nothing is kept.
    """
    from sweeps.verbs.probe.listing import listed_metrics
    from sweeps.verbs.probe.pasted import pasted
    from sweeps.verbs.probe.request import probed_command
    from sweeps.verbs.probe.run import fresh_place, run
    from sweeps.verbs.probe.shown import show

    here = Path.cwd()
    words = _checked(command or [], seconds)
    with fresh_place(here) as place:
        request = probed_command(words, here, place.out)
        if not as_json:
            ERR.print(f"Running for up to {seconds:g} s …", style="dim")
        ran = run(request.words, request.env, place, seconds)
    metrics = listed_metrics(ran.points, ran.loose_points)
    if as_json:
        print_json(_json(words, ran, metrics, pasted(metrics)))
    else:
        show(words, ran, metrics, here)
    has_failed = bool(ran.code) and not ran.was_ended
    return 1 if has_failed or not pasted(metrics) else 0


def _checked(words: Sequence[str], seconds: float) -> list[str]:
    """The command's words. One word may be the whole line. Raises RefusedError."""
    from sweeps.command_task.template import split

    problems: list[Problem] = []
    if not words:
        allowed = "type it after --, such as allelse probe -- python train.py --lr 0.1"
        problems.append(Problem("COMMAND", "is missing", allowed))
    if not seconds > 0:
        problems.append(Problem("--seconds", f"is {seconds:g}", "must be more than 0"))
    if problems:
        raise RefusedError(problems)
    return list(split(words[0])) if len(words) == 1 else list(words)


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
        "last_lines": list(ran.lines),
    }
