"""A trained model into a new folder, in the format of another tool."""

import logging
import os
import tempfile
import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import assert_never

import transformer
from sweeps.task import Trained
from transformer.config import TrialConfig
from transformer.data.prepare import Prepared
from transformer.decoding import serve
from transformer.decoding.ctranslate import export_ctranslate2
from transformer.decoding.export import export_weights, new_folder
from transformer.decoding.translate import Translator
from transformer.verbs.card import ModelCard
from transformer.verbs.export_kind import ExportKind
from transformer.verbs.models import EXPORTED, translator_of
from transformer.verbs.refusing import refusing

SERVED = ("transformer", "sweeps", "tracking")
"""Our packages that a served model brings along: its code, and the interface of tasks, which that needs."""
SERVED_WITH = ("torch", "numpy", "sentencepiece", "safetensors")
"""The packages that the exported code imports."""


@refusing()
def export_model(trial: Trained[TrialConfig], to: ExportKind, folder: Path, register: str | None) -> str | None:
    """All of it or nothing, so that the command can be repeated. Returns the command that serves a registered model.

    Raises RefusedError.
    """
    translator = translator_of(trial)
    card = _card(trial, translator).text(to)
    with new_folder(folder) as made:
        _write(trial, translator, to, made)
        (made / "README.md").write_text(card, "utf-8")
        return trial.register(made, register) if register is not None else None


def _card(trial: Trained[TrialConfig], translator: Translator) -> ModelCard:
    prepared = Prepared(trial.data)
    example = next(line for line in prepared.sources(prepared.evaluation_sets[0]) if line.strip())
    return ModelCard(trial, len(translator.vocabulary), example)


def _write(trial: Trained[TrialConfig], translator: Translator, to: ExportKind, folder: Path) -> None:
    """Write into ``folder``, which exists and is empty."""
    vocabulary, config = Prepared(trial.data).vocabulary_path, _as_exported(trial.config)
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


def _as_exported(config: TrialConfig) -> TrialConfig:
    """Without averaging: the exported weights are the mean already."""
    return replace(config, decode=replace(config.decode, average_checkpoints=1))


def _save_for_mlflow(folder: Path, data: Path) -> None:
    """A model that maps a column of text to a column of text: ``data`` as ``serve`` opens it, with our code."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    logging.getLogger("mlflow").setLevel(logging.CRITICAL)
    import mlflow.pyfunc
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, DataType, Schema

    columns = (Schema([ColSpec(DataType.string, name)]) for name in ("text", "translation"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*An input example was not provided")
        mlflow.pyfunc.save_model(
            path=str(folder),
            loader_module=serve.__name__,
            data_path=str(data),
            code_paths=[str(Path(transformer.__file__).parents[1] / name) for name in SERVED],
            signature=ModelSignature(*columns),
            pip_requirements=[f"{name}=={metadata.version(name).partition('+')[0]}" for name in SERVED_WITH],
        )
