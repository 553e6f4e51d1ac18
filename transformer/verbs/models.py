"""The model behind what a verb was given: a trained trial, or an exported folder; and faults as refusals."""

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
    """The same as the interface takes them."""
    return [Problem(fault.key, fault.found, fault.allowed, fault.nearest) for fault in faults]


def averaging(trained: Trained[TrialConfig], average: int | None, typed: Typed) -> Trained[TrialConfig]:
    """The same with the mean of so many checkpoints. Raises RefusedError."""
    if average is None:
        return trained
    _check_once(typed)
    config = trained.config
    return trained.configured(replace(config, decode=replace(config.decode, average_checkpoints=average)))


def translator_of(trained: Trained[TrialConfig]) -> "Translator":
    """Its model with its decode settings, on this machine's device; a mean ends at its step. Raises RefusedError."""
    from transformer.data.prepared import Prepared
    from transformer.decoding.translator import Translator
    from transformer.model.encoder_decoder import Transformer
    from transformer.training.state import mean_weights
    from transformer.training.worker_group import pick_device

    config, vocabulary = trained.config, Prepared(trained.data).vocabulary
    steps = replace(config, train=replace(config.train, steps=trained.step)).averaged_steps
    model = Transformer(config.model, len(vocabulary))
    try:
        model.load_state_dict(mean_weights(trained.states(steps), model))
    except StateError as error:
        raise RefusedError([Problem(trained.name, "cannot be loaded", str(error))]) from error
    return Translator(model.to(pick_device()).eval(), vocabulary, config.decode, config.train.precision)


@refusing()
def translator_in(folder: Path, average: int | None, typed: Typed) -> "Translator":
    """The model in an exported folder, on this machine's device. Raises RefusedError."""
    exported = _exported(folder)  # refused before torch is loaded
    from transformer.decoding.export import open_exported
    from transformer.training.worker_group import pick_device

    translator = open_exported(exported)
    decode = _decoding(translator.decode, average, typed)
    if decode.average_checkpoints > 1:
        found, allowed = f"is {decode.average_checkpoints}", "must be 1: an exported model has no checkpoints"
        raise RefusedError([Problem(AVERAGE_KEY, found, allowed)])
    return replace(translator, decode=decode, model=translator.model.to(pick_device()))


def _decoding(exported: DecodeConfig, average: int | None, typed: Typed) -> DecodeConfig:
    values = {key.removeprefix("decode."): value for key, value in typed.items()}
    if average is not None:
        _check_once(typed)
        values["average_checkpoints"] = average
    decode, problems = parse(DecodeConfig, vars(exported) | values, "decode")
    if decode is None:
        raise RefusedError(problems)
    return decode


def _check_once(typed: Typed) -> None:
    if AVERAGE_KEY in typed:
        found, allowed = f"is given with {AVERAGE_KEY}", "use only one of them"
        raise RefusedError([Problem("--average", found, allowed, None, "command line")])


def _exported(path: Path) -> Path:
    """The folder that ``export --to safetensors`` wrote: this folder, or a folder within an MLflow model."""
    if (path / "model.bin").is_file():
        found = f"{path} is a CTranslate2 model"
        raise RefusedError([Problem("TRIAL", found, f"use the ctranslate2 package, as {path / 'README.md'} shows")])
    inner = path / "data" / EXPORTED if (path / "MLmodel").is_file() else path
    if not (inner / "model.safetensors").is_file():
        allowed = "must be a trial, the folder of a trial, checkpoint or exported model, or an MLflow run id"
        raise RefusedError([Problem("TRIAL", f"{path} holds no model", allowed)])
    return inner
