"""``allelse evaluate``: its options, and what it prints."""

import json
import os
import shlex
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sweeps.task import Trained, Typed
from transformer.config import TrialConfig
from transformer.finite import NotFiniteError
from transformer.verbs.models import Average, averaging

SetName = Annotated[str | None, typer.Option("--set", help="Only this set, of the trial's data or of sacreBLEU.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
WIDTH = 120  # of a table in a file or a pipe


def evaluate(
    trials: Sequence[Trained[TrialConfig]],
    typed: Typed,
    set_name: SetName = None,
    average: Average = None,
    as_json: Json = False,
) -> int | str:
    """Evaluate finished trials on each set of their data, or on one set, and save the translations."""
    given = [averaging(trial, average, typed) for trial in trials]
    from transformer.verbs.evaluating import evaluations_of  # loads torch, which no refusal above needs
    from transformer.verbs.scores import notes, scores_json, scores_table

    err = Console(stderr=True, highlight=False)
    try:
        evaluations = evaluations_of(given, set_name, err)
    except NotFiniteError as error:
        err.print(f"[bold red]Failed[/]: {escape(str(error))}", soft_wrap=True)
        return 1
    if as_json:
        print(json.dumps(scores_json(evaluations), indent=1, ensure_ascii=False))
        return 0
    out = Console(highlight=False)
    out.print(scores_table(evaluations), width=None if out.is_terminal else WIDTH)
    for line in notes(evaluations):
        out.print(escape(line), style="dim", soft_wrap=True)
    return f"allelse translate {shlex.quote(os.path.relpath(given[0].folder))}"
