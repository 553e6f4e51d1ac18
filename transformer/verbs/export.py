"""``allelse export``: a finished trial's model in a format of another tool, with a model card.

The card is ``model_card.jinja``, filled in.
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
from sweeps.task import Problem, RefusedError, Trained, Typed
from transformer.card import CARD, signatures
from transformer.config import TrialConfig
from transformer.cost import parameters
from transformer.verbs.models import EXPORTED, Average, averaging, refusing, translator_of

if TYPE_CHECKING:
    from transformer.decoding.translator import Translator  # loads torch, which no refusal needs

SERVED = ("transformer", "sweeps", "tracking")
"""Our packages that a served model brings along: its code, and the interface of tasks, which that needs."""
SERVED_WITH = ("torch", "numpy", "sentencepiece", "safetensors")
"""The packages that the exported code imports."""


class ExportKind(StrEnum):
    """A format, by its name in ``--to``."""

    ctranslate2 = "ctranslate2"
    safetensors = "safetensors"
    mlflow = "mlflow"


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
    with Console(stderr=True, highlight=False).status(f"Exporting {escape(trial.name)}"):
        served = _export(trial, to, folder, register)
    Console(highlight=False).print(f"Wrote {escape(str(folder))}/; see its README.md for how to use it", soft_wrap=True)
    return served or _next(to, shlex.quote(str(folder)))


def _check(folder: Path, to: ExportKind, register: str | None) -> None:
    problems = []
    if folder.exists():
        problems.append(Problem("--output", f"{folder} exists", "must be a new folder: --output NEW"))
    if register is not None and to is not ExportKind.mlflow:
        allowed = "needs --to mlflow: MLflow serves no other format"
        problems.append(Problem("--register", f"is given with --to {to}", allowed))
    if problems:
        raise RefusedError(problems)


def _next(to: ExportKind, folder: str) -> str:
    return {
        ExportKind.mlflow: f"mlflow models serve --model-uri {folder} --env-manager local",
        ExportKind.safetensors: f"allelse translate {folder}",
        ExportKind.ctranslate2: f"cd {folder}",
    }[to]


@refusing()
def _export(trial: Trained[TrialConfig], to: ExportKind, folder: Path, register: str | None) -> str | None:
    """All of it or nothing, so that the command can be repeated. Returns the command that serves a registered model.

    Raises RefusedError.
    """
    from transformer.data.prepared import Prepared
    from transformer.decoding.export import new_folder

    translator, prepared = translator_of(trial), Prepared(trial.data)
    example = next(line for line in prepared.sources(prepared.evaluation_sets[0]) if line.strip())
    with new_folder(folder) as made:
        _write(translator, prepared.vocabulary_path, trial.config, to, made)
        (made / "README.md").write_text(model_card(trial, len(translator.vocabulary), example, to), "utf-8")
        return trial.register(made, register) if register is not None else None


def _write(translator: "Translator", vocabulary: Path, config: TrialConfig, to: ExportKind, folder: Path) -> None:
    """Write into ``folder``, which exists and is empty. The exported weights are the mean already."""
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
    """A model from a column of text to a column of text: ``data`` as ``decoding/export.py`` opens it, with our code."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    from transformer.decoding.export import open_exported

    columns = (Schema([ColSpec(DataType.string, name)]) for name in ("text", "translation"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*An input example was not provided")
        mlflow.pyfunc.save_model(
            path=str(folder),
            loader_module=open_exported.__module__,
            data_path=str(data),
            code_paths=[str(Path(transformer.__file__).parents[1] / name) for name in SERVED],
            signature=ModelSignature(*columns),
            pip_requirements=[f"{name}=={metadata.version(name).partition('+')[0]}" for name in SERVED_WITH],
        )


def model_card(trial: Trained[TrialConfig], vocab_size: int, example: str, to: ExportKind) -> str:
    """The README.md of an exported model: its size, use, scores, data and provenance. ``example`` is a source line."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # a moment, which only an export needs

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["quoted"] = partial(json.dumps, ensure_ascii=False)
    return made.get_template("model_card.jinja").render(_of_card(trial, vocab_size), example=example, to=to)


def _of_card(trial: Trained[TrialConfig], vocab_size: int) -> dict[str, Any]:
    config, about = trial.config, dict(trial.provenance)
    scores = {name: CARD.scores(of_set).values for name, of_set in trial.scored.items()}
    flops = about.get("flops") if trial.step == config.train.steps else None  # they are those of all steps
    versions = [f"{name} {version}" for name, version in (about.get("versions") or {}).items() if version]
    return {
        **vars(config),
        **{"trial": trial, "about": about, "flops": flops, "versions": versions, "vocab_size": vocab_size},
        **{"params": parameters(config.model, vocab_size), "metrics": CARD.printed, "scores": scores},
        "signatures": signatures(trial.scored.values()),
    }
