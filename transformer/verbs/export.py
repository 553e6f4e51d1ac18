"""``allelse export``: a finished trial's model in the format of a tool, with a model card.

The card comes from the template ``model_card.jinja``.
"""

import json
import logging
import os
import shlex
import tempfile
import warnings
from dataclasses import replace
from enum import StrEnum
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, assert_never

import typer
from rich.console import Console
from rich.markup import escape

import transformer
from sweeps.task import Problem, RefusedError, Trained, Typed, added_later
from transformer.card import CARD, signatures, words
from transformer.config import ModelConfig, TrialConfig, ctranslate2_faults
from transformer.cost import parameters
from transformer.verbs.models import (
    EXPORTED,
    Average,
    as_problems,
    averaging,
    refusing,
    translator_of,
)

if TYPE_CHECKING:
    from transformer.decoding.translator import Translator  # loads torch, which no refusal needs

SERVED = ("transformer", "sweeps", "tracking")
"""Our packages that a served model contains: its code, and the interface of tasks for it."""
SERVED_WITH = ("torch", "numpy", "sentencepiece", "safetensors")
"""The packages that the exported code imports."""


OUTPUT_HELP = "A new folder; by default here, named after the model."
Output = Annotated[Path | None, typer.Option(help=OUTPUT_HELP)]
RegisterOption = typer.Option(metavar="NAME[@ALIAS]", help="Register the model in MLflow.")
Register = Annotated[str | None, RegisterOption]


class ExportKind(StrEnum):
    """A format, by its name in ``--to``."""

    ctranslate2 = "ctranslate2"
    safetensors = "safetensors"
    mlflow = "mlflow"


def export(
    trial: Trained[TrialConfig],
    typed: Typed,
    to: Annotated[ExportKind, typer.Option(help="The format to write.")],
    output: Output = None,
    average: Average = None,
    register: Register = None,
) -> str:
    """Export a finished trial's model for other tools, with a model card: scores, data, provenance,
    usage."""
    folder = output or _default_folder(trial, to)
    _check(folder, to, register, trial.config.model)
    trial = averaging(trial, average, typed)
    with Console(stderr=True, highlight=False, emoji=False).status(
        f"Exporting {escape(trial.name)}"
    ):
        serve_command = _export(trial, to, folder, register)
    message = f"Wrote {escape(str(folder))}/; see its README.md for how to use it"
    Console(highlight=False, emoji=False).print(message, soft_wrap=True)
    return serve_command or _next_command(to, shlex.quote(str(folder)))


def _default_folder(trial: Trained[TrialConfig], to: ExportKind) -> Path:
    """Such as multi30k-quarter-base-s1-safetensors; an earlier checkpoint also has its step."""
    parts = [trial.folder.parent.name, trial.folder.name]
    if trial.step != trial.config.train.steps:
        parts.append(f"step-{trial.step}")
    return Path("-".join([*parts, to]))


def _check(folder: Path, to: ExportKind, register: str | None, model: ModelConfig) -> None:
    """Find mistakes before the model is loaded. Raises RefusedError."""
    problems = list[Problem]()
    if to is ExportKind.ctranslate2:
        problems += as_problems(ctranslate2_faults(model))
    if folder.exists():
        allowed = "must be a new folder: --output NEW"
        problems.append(Problem("--output", f"{folder} exists", allowed))
    if register is not None and to is not ExportKind.mlflow:
        allowed = "needs --to mlflow: MLflow serves no other format"
        problems.append(Problem("--register", f"is given with --to {to}", allowed))
    if problems:
        raise RefusedError(problems)


def _next_command(to: ExportKind, folder: str) -> str:
    """The command to type next, for a quoted folder."""
    return {
        ExportKind.mlflow: f"mlflow models serve --model-uri {folder} --env-manager local",
        ExportKind.safetensors: f"allelse translate {folder}",
        ExportKind.ctranslate2: f"cd {folder}",
    }[to]


@refusing()
def _export(
    trial: Trained[TrialConfig],
    to: ExportKind,
    folder: Path,
    register: str | None,
) -> str | None:
    """Write the whole folder or nothing, so that you can repeat the command.

    Returns the command that serves a registered model, None if it isn't registered. Raises
    RefusedError.
    """
    from transformer.data.prepared import Prepared
    from transformer.decoding.export import new_folder

    translator = translator_of(trial)
    prepared = Prepared(trial.data)
    lines = prepared.sources(prepared.evaluation_sets[0])
    example = next(line for line in lines if line.strip())
    with new_folder(folder) as temporary:
        _write(translator, prepared.vocabulary_path, trial.config, to, temporary)
        card = model_card(trial, len(translator.vocabulary), example, to)
        (temporary / "README.md").write_text(card, "utf-8")
        return trial.register(temporary, register) if register is not None else None


def _write(
    translator: "Translator",
    vocabulary: Path,
    config: TrialConfig,
    to: ExportKind,
    folder: Path,
) -> None:
    """Write the model into ``folder``, which exists and is empty.

    The exported weights are the mean of the checkpoints, so the exported configuration averages
    none.
    """
    from transformer.decoding.export import export_ctranslate2, export_weights

    config = replace(config, decode=replace(config.decode, average_checkpoints=1))
    match to:
        case ExportKind.ctranslate2:
            export_ctranslate2(translator.model, vocabulary, folder)
        case ExportKind.safetensors:
            export_weights(translator.model, vocabulary, config, folder)
        case ExportKind.mlflow:
            with tempfile.TemporaryDirectory() as temporary:
                data = Path(temporary) / EXPORTED
                data.mkdir()
                export_weights(translator.model, vocabulary, config, data)
                _save_for_mlflow(folder, data)
        case _:
            assert_never(to)


def _save_for_mlflow(folder: Path, data: Path) -> None:
    """Save an MLflow model that turns a column of text into a column of text.

    It contains ``data``, an exported folder, and our code, which opens it.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    from transformer.decoding.export import open_exported

    inputs = Schema([ColSpec(DataType.string, "text")])
    outputs = Schema([ColSpec(DataType.string, "translation")])
    root = Path(transformer.__file__).parents[1]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*An input example was not provided")
        mlflow.pyfunc.save_model(
            path=str(folder),
            loader_module=open_exported.__module__,
            data_path=str(data),
            code_paths=[str(root / package) for package in SERVED],
            signature=ModelSignature(inputs, outputs),
            pip_requirements=[_requirement(package) for package in SERVED_WITH],
        )


def _requirement(package: str) -> str:
    """The installed version, without a local part such as "+cpu"."""
    version, _, _ = metadata.version(package).partition("+")
    return f"{package}=={version}"


def model_card(trial: Trained[TrialConfig], vocab_size: int, example: str, to: ExportKind) -> str:
    """The README.md of an exported model: its size, use, scores, data and provenance.

    ``example`` is a source line.
    """
    # Only exports import this, since it takes a moment.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["quoted"] = partial(json.dumps, ensure_ascii=False)
    template = environment.get_template("model_card.jinja")
    return template.render(_card_values(trial, vocab_size), example=example, to=to)


def _card_values(trial: Trained[TrialConfig], vocab_size: int) -> dict[str, Any]:
    """The values that the template of the card names."""
    config = trial.config
    provenance = dict(trial.provenance)
    is_last_step = trial.step == config.train.steps
    versions = (provenance.get("versions") or {}).items()
    return {
        **vars(config),
        "trial": trial,
        "about": provenance,
        "is_last_step": is_last_step,
        "flops": provenance.get("flops") if is_last_step else None,  # they are those of all steps
        "versions": [f"{package} {version}" for package, version in versions if version],
        "vocab_size": vocab_size,
        "variant": words(added_later(config.model)),
        "params": parameters(config.model, vocab_size),
        "metrics": CARD.printed,
        "scores": {name: CARD.scores(scores).values for name, scores in trial.scored.items()},
        "signatures": signatures(trial.scored.values()),
    }
