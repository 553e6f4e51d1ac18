"""``allelse export``: a finished trial's model in a format of another tool, with a model card."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sweeps.task import Problem, RefusedError, Trained, Typed
from transformer.config import TrialConfig
from transformer.verbs.export_kind import ExportKind
from transformer.verbs.models import Average, averaging


def export(
    trial: Trained[TrialConfig],
    typed: Typed,
    to: Annotated[ExportKind, typer.Option(help="The format to write.")],
    output: Annotated[Path | None, typer.Option(help="A new folder; by default here, named after the model.")] = None,
    average: Average = None,
    register: Annotated[str | None, typer.Option(metavar="NAME[@ALIAS]", help="Register the model in MLflow.")] = None,
) -> str:
    """Export a finished trial's model for other tools, with a model card: scores, data, provenance, usage."""
    folder = output or Path(f"{trial.folder.parent.name}-{trial.folder.name}-{to}")
    _check(folder, to, register)
    trial = averaging(trial, average, typed)
    from transformer.verbs.exporting import export_model  # loads torch, which no refusal above needs

    with Console(stderr=True, highlight=False).status(f"Exporting {escape(trial.name)}"):
        serve = export_model(trial, to, folder, register)
    Console(highlight=False).print(f"Wrote {escape(str(folder))}/; see its README.md for how to use it", soft_wrap=True)
    return serve or _next(to, folder)


def _check(folder: Path, to: ExportKind, register: str | None) -> None:
    problems = []
    if folder.exists():
        problems.append(Problem("--output", f"{folder} exists", "must be a new folder: --output NEW"))
    if register is not None and to is not ExportKind.mlflow:
        allowed = "needs --to mlflow: MLflow serves no other format"
        problems.append(Problem("--register", f"is given with --to {to}", allowed))
    if problems:
        raise RefusedError(problems)


def _next(to: ExportKind, folder: Path) -> str:
    place = shlex.quote(str(folder))
    commands = {
        ExportKind.mlflow: f"mlflow models serve --model-uri {place} --env-manager local",
        ExportKind.safetensors: f"allelse translate {place}",
        ExportKind.ctranslate2: f"cd {place}",
    }
    return commands[to]
