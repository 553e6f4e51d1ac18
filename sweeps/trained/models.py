"""The model that a name stands for, ready to translate."""

import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from sweeps.planning.settings import Settings
from sweeps.schema import Problem, RefusedError
from sweeps.trained.request import Request
from sweeps.trained.saved_trial import SavedTrial, find, read_trial
from transformer.decoding.load import load
from transformer.decoding.serve import open_exported
from transformer.decoding.translate import Translator
from transformer.training.checkpoint import Checkpoints
from transformer.training.checkpoint_folder import KEY_DIGITS
from transformer.training.parallel import pick_device

EXPORTED = "exported"  # within an MLflow model's data


def open_model(request: Request, err: Console) -> Translator:
    """The model of the request's first name, with the requested decode settings. Raises RefusedError."""
    path = find(request.names[0], request.shared)
    with err.status(f"Loading {escape(path.name)}"):
        if (path / "manifest.json").is_file():
            return _of_checkpoint(path, request)
        if (exported := _exported(path)) is not None:
            return _of_export(exported, request)
        return of_trial(read_trial(path, request.shared), request)


def of_trial(trial: SavedTrial, request: Request) -> Translator:
    """The finished trial's model. Raises RefusedError."""
    result = trial.result()
    return _load(trial, request, Checkpoints(trial.checkpoints_url, trial.key, result["attempt"], 1), result["step"])


def _exported(path: Path) -> Path | None:
    """The folder that ``export --to safetensors`` wrote: this folder, or a folder within an MLflow model."""
    if (path / "model.bin").is_file():
        found = f"{path} is a CTranslate2 model"
        raise RefusedError([Problem("TRIAL", found, f"use the ctranslate2 package, as {path / 'README.md'} shows")])
    inner = path / "data" / EXPORTED if (path / "MLmodel").is_file() else path
    return inner if (inner / "model.safetensors").is_file() else None


def _of_export(path: Path, request: Request) -> Translator:
    translator = open_exported(path)
    decode = request.decoding(translator.decode)
    if decode.average_checkpoints > 1:
        found, allowed = f"is {decode.average_checkpoints}", "must be 1: an exported model has no checkpoints"
        raise RefusedError([Problem("decode.average_checkpoints", found, allowed)])
    return replace(translator, decode=decode, model=translator.model.to(pick_device()))


def _of_checkpoint(path: Path, request: Request) -> Translator:
    place = re.search(rf"/([0-9a-f]{{{KEY_DIGITS}}})/a(\d+)/step-(\d+)$", path.as_posix())
    if place is None:
        allowed = "must be the folder <key>/a<attempt>/step-<n> of a trial's checkpoints"
        raise RefusedError([Problem("TRIAL", f"{path} is not a checkpoint of a trial", allowed)])
    key, attempt, step = place[1], int(place[2]), int(place[3])
    folder = path.parents[2]
    trial = read_trial(_owner(folder, request.shared), request.shared)
    if not trial.key.startswith(key):
        found = f"{path} belongs to trial {key}, but the key of {trial.name} is {trial.key[:KEY_DIGITS]}"
        raise RefusedError([Problem("TRIAL", found, "must lie in the folder of its own trial")])
    return _load(trial, request, Checkpoints(str(folder), trial.key, attempt, 1), step)


def _owner(checkpoints: Path, shared: Settings) -> Path:
    """The folder of the trial that owns these checkpoints; ``paths.checkpoints`` may place them elsewhere."""
    if checkpoints.name == "checkpoints":
        return checkpoints.parent
    return Path(shared.paths.runs) / checkpoints.parent.name / checkpoints.name


def _load(trial: SavedTrial, request: Request, checkpoints: Checkpoints, step: int) -> Translator:
    config = replace(trial.config, decode=request.decoding(trial.config.decode))
    return load(config, trial.prepared().vocabulary, checkpoints, step, pick_device())
