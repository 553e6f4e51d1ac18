"""The verbs that use a finished model: ``translate``, ``evaluate``, ``export``."""

import json
import os
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from sweeps.commands.arguments import Average, Json, Models, SetName
from sweeps.commands.guarded import guarded
from sweeps.console import ERR, OUT, next_command, next_verb
from sweeps.trained.export_kind import ExportKind


@guarded
def translate(
    arguments: Models,
    source: Annotated[Path | None, typer.Option("--input", help="Read this file, not standard input.")] = None,
    target: Annotated[Path | None, typer.Option("--output", help="Write this file, not standard output.")] = None,
    nbest: Annotated[int | None, typer.Option(min=1, help="Print N lines per sentence: score TAB text.")] = None,
    average: Average = None,
) -> int:
    """Translate lines with a trial, a checkpoint, an exported model or an MLflow run."""
    from sweeps.trained.streams import translate_request

    request = translate_request(arguments, source, target, average)
    from sweeps.trained.translate import translate as run  # loads torch, which no refusal needs

    return run(request, source, target, nbest, ERR)


@guarded
def evaluate(
    arguments: Models,
    set_name: SetName = None,
    average: Average = None,
    as_json: Json = False,
) -> None:
    """Evaluate finished trials on each set of their data, or on one set, and save the translations."""
    from sweeps.trained.saved_trial import requested_trials

    request, trials = requested_trials("evaluate", arguments, average, set_name)
    from sweeps.trained.evaluate import evaluate as run  # loads torch, which no refusal needs
    from sweeps.trained.scores import notes, scores_json, scores_table

    evaluations = run(request, trials, ERR)
    if as_json:
        print(json.dumps(scores_json(evaluations), indent=1, ensure_ascii=False))
        return
    OUT.print(scores_table(evaluations))
    for line in notes(evaluations):
        OUT.print(escape(line), style="dim", soft_wrap=True)
    next_verb("translate", [os.path.relpath(evaluations[0].trial.path)])


@guarded
def export(
    arguments: Models,
    to: Annotated[ExportKind, typer.Option(help="The format to write.")],
    output: Annotated[Path | None, typer.Option(help="A new folder; by default here, named after the model.")] = None,
    average: Average = None,
    register: Annotated[str | None, typer.Option(metavar="NAME[@ALIAS]", help="Register the model in MLflow.")] = None,
) -> None:
    """Export a finished trial's model for other tools, with a model card: scores, data, provenance, usage."""
    from sweeps.trained.saved_trial import requested_trials
    from tracking.uri import without_password

    request, trials = requested_trials("export", arguments, average)
    from sweeps.trained.export import export as run  # loads torch, which no refusal needs

    folder, registration = run(request, trials, to, output, register, ERR)
    OUT.print(f"Wrote {escape(str(folder))}/; see its README.md for how to use it", soft_wrap=True)
    if registration:
        serve = f"mlflow models serve --model-uri {shlex.quote(registration.model_uri)} --env-manager local"
        next_command(f"MLFLOW_TRACKING_URI={shlex.quote(without_password(registration.uri))} {serve}")
    elif to is ExportKind.mlflow:
        next_command(f"mlflow models serve --model-uri {shlex.quote(str(folder))} --env-manager local")
    elif to is ExportKind.safetensors:
        next_verb("translate", [str(folder)])
    else:
        next_command(f"cd {shlex.quote(str(folder))}")
