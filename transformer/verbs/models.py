"""The model that a verb works on, a trained trial or an exported folder; faults as refusals."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.task import Problem, RefusedError, StateError, Trained, Typed, parse
from transformer.config import DecodeConfig, TrialConfig
from transformer.faults import Fault, FaultyError

if TYPE_CHECKING:
    from transformer.decoding.translator import Translator  # loads torch, which no refusal needs

Average = Annotated[int | None, typer.Option(min=1, help="Use the mean of the last N checkpoints.")]
EXPORTED = "exported"  # within an MLflow model's data
AVERAGE_KEY = "decode.average_checkpoints"


@contextmanager
def refusing() -> Iterator[None]:
    """Inside this context, or as a decorator: a FaultyError becomes a RefusedError."""
    try:
        yield
    except FaultyError as error:
        raise RefusedError(as_problems(error.faults)) from error


def as_problems(faults: Iterable[Fault]) -> list[Problem]:
    """These faults as the task's interface takes them."""
    return [Problem(fault.key, fault.found, fault.allowed, fault.nearest) for fault in faults]


def averaging(
    trained: Trained[TrialConfig],
    average: int | None,
    typed: Typed,
) -> Trained[TrialConfig]:
    """The trial with the mean of its last ``average`` checkpoints; unchanged if that is None.

    Raises RefusedError.
    """
    if average is None:
        return trained
    _check_once(typed)
    decode = replace(trained.config.decode, average_checkpoints=average)
    return trained.configured(replace(trained.config, decode=decode))


def open_translator(
    model: Trained[TrialConfig] | Path,
    average: int | None,
    typed: Typed,
) -> "Translator":
    """The translator of a trial, or in an exported folder. Raises RefusedError."""
    if isinstance(model, Path):
        return translator_in(model, average, typed)
    return translator_of(model)


def translator_of(trained: Trained[TrialConfig]) -> "Translator":
    """The trial's model with its decode settings, on this machine's device.

    A mean of checkpoints ends at the trial's step. Raises RefusedError.
    """
    from transformer.data.prepared import Prepared
    from transformer.decoding.translator import Translator
    from transformer.model.encoder_decoder import Transformer
    from transformer.training.state import mean_weights
    from transformer.training.worker_group import pick_device

    config = trained.config
    vocabulary = Prepared(trained.data).vocabulary
    trained_config = replace(config, train=replace(config.train, steps=trained.step))
    steps = trained_config.averaged_steps
    model = Transformer(config.model, len(vocabulary))
    try:
        model.load_state_dict(mean_weights(trained.states(steps), model))
    except StateError as error:
        raise RefusedError([Problem(trained.name, "cannot be loaded", str(error))]) from error
    model = model.to(pick_device()).eval()
    return Translator(model, vocabulary, config.decode, config.train.precision)


@refusing()
def translator_in(folder: Path, average: int | None, typed: Typed) -> "Translator":
    """The model in an exported folder, on this machine's device. Raises RefusedError."""
    exported = _exported_folder(folder)  # refuses before torch is loaded
    from transformer.decoding.export import open_exported
    from transformer.training.worker_group import pick_device

    translator = open_exported(exported)
    decode = _decode_config(translator.decode, average, typed)
    if decode.average_checkpoints > 1:
        problem = f"is {decode.average_checkpoints}"
        allowed = "must be 1: an exported model has no checkpoints"
        raise RefusedError([Problem(AVERAGE_KEY, problem, allowed)])
    return replace(translator, decode=decode, model=translator.model.to(pick_device()))


def _decode_config(exported: DecodeConfig, average: int | None, typed: Typed) -> DecodeConfig:
    """The exported settings with the typed ones on top. Raises RefusedError."""
    values = {key.removeprefix("decode."): value for key, value in typed.items()}
    if average is not None:
        _check_once(typed)
        values["average_checkpoints"] = average
    decode, problems = parse(DecodeConfig, vars(exported) | values, "decode")
    if decode is None:
        raise RefusedError(problems)
    return decode


def _check_once(typed: Typed) -> None:
    """Raises RefusedError if ``decode.average_checkpoints`` is typed next to ``--average``."""
    if AVERAGE_KEY in typed:
        problem = f"is given with {AVERAGE_KEY}"
        allowed = "use only one of them"
        raise RefusedError([Problem("--average", problem, allowed, None, "command line")])


def _exported_folder(path: Path) -> Path:
    """The folder that ``export --to safetensors`` wrote: this folder, or one in an MLflow model.

    Raises RefusedError.
    """
    if (path / "model.bin").is_file():
        problem = f"{path} is a CTranslate2 model"
        fix = f"use the ctranslate2 package, as {path / 'README.md'} shows"
        raise RefusedError([Problem("TRIAL", problem, fix)])
    folder = path / "data" / EXPORTED if (path / "MLmodel").is_file() else path
    if not (folder / "model.safetensors").is_file():
        folders = "the folder of a trial, checkpoint or exported model"
        allowed = f"must be a trial, {folders}, or an MLflow run id"
        raise RefusedError([Problem("TRIAL", f"{path} has no model", allowed)])
    return folder


def output_problem(output: Path) -> Problem | None:
    """Why ``--output`` cannot be this file; None if it can."""
    folder = output.absolute().parent
    if not folder.is_dir():
        problem = f"{output.parent} is not a folder"
        return Problem("--output", problem, "must be in a folder that exists")
    if output.is_dir() or not os.access(output if output.exists() else folder, os.W_OK):
        return Problem("--output", f"{output} cannot be written", "must be a writable file")
    return None
