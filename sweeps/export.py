"""``ablate export``: a finished trial's model as others use it, with a card."""

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

import transformer
from sweeps.card import Card
from sweeps.evaluate import recorded_scores
from sweeps.models import EXPORTED, of_trial
from sweeps.request import Request, read_request
from sweeps.saved import SavedTrial, named_trials
from tracking.files import write_atomic
from tracking.registry import RegistryError, register, save_model
from tracking.replay import run_of_trial
from tracking.uri import default_uri
from transformer.config import TrialConfig
from transformer.decoding import serve
from transformer.decoding.ctranslate import export_ctranslate2
from transformer.decoding.export import export_weights, new_folder
from transformer.decoding.translate import Translator
from transformer.schema import Problem, RefusedError

SERVED_WITH = ("torch", "numpy", "sentencepiece", "safetensors", "filelock", "pooch")
"""What the exported code imports."""


@dataclass(frozen=True)
class Registration:
    """The name and alias to register a model under, and its trial's run at ``uri``."""

    name: str
    alias: str | None
    run_id: str
    uri: str

    @property
    def model_uri(self) -> str:
        return f"models:/{self.name}@{self.alias}" if self.alias else f"models:/{self.name}/latest"


def export(
    words: list[str], to: str, output: Path | None, average: int | None, name: str | None, err: Console
) -> tuple[Path, Registration | None]:
    """The folder that was written, and how it was registered. Raises RefusedError."""
    request = read_request("export", words, average)
    trial = _one(named_trials(request))
    folder = output or Path(f"{trial.path.parent.name}-{trial.path.name}-{to}")
    registration = _registration(trial, request, to, name)
    if folder.exists():
        raise RefusedError([Problem("--output", f"{folder} exists", "must be a new folder")])
    with err.status(f"Exporting {trial.name}"):
        translator = of_trial(trial, request)
        card = _card(trial, translator).text(to)
        _write(trial, translator, to, folder)
        write_atomic(folder / "README.md", card)
        if registration:
            _register(folder, registration, card)
    return folder, registration


def _write(trial: SavedTrial, translator: Translator, to: str, folder: Path) -> None:
    vocabulary = trial.prepared().vocabulary_path
    if to == "ctranslate2":
        export_ctranslate2(translator.model, vocabulary, folder)
    elif to == "safetensors":
        export_weights(translator.model, vocabulary, _as_exported(trial, translator), folder)
    else:
        with new_folder(folder) as made, tempfile.TemporaryDirectory() as temporary:
            data = Path(temporary) / EXPORTED
            export_weights(translator.model, vocabulary, _as_exported(trial, translator), data)
            save_model(made, serve.__name__, data, Path(transformer.__file__).parent, list(SERVED_WITH))


def _as_exported(trial: SavedTrial, translator: Translator) -> TrialConfig:
    """The weights are a mean already, if they are one."""
    return replace(trial.config, decode=replace(translator.decode, average=1))


def _card(trial: SavedTrial, translator: Translator) -> Card:
    prepared = trial.prepared()
    config = replace(trial.config, decode=translator.decode)
    example = next(line for line in prepared.sources(prepared.judged_sets[0]) if line.strip())
    return Card(trial, config, recorded_scores(trial, translator.decode), len(translator.vocabulary), example)


def _one(trials: list[SavedTrial]) -> SavedTrial:
    if len(trials) > 1:
        found = f"names {len(trials)} trials: {', '.join(trial.name for trial in trials)}"
        raise RefusedError([Problem("TRIAL", found, "one model is exported at a time")])
    return trials[0]


def _registration(trial: SavedTrial, request: Request, to: str, name: str | None) -> Registration | None:
    """What --register NAME[@ALIAS] asks for, looked at before anything is written. Raises RefusedError."""
    if name is None:
        return None
    uri = request.shared.tracking.uri or default_uri(trial.path.parents[1])
    run_id = run_of_trial(trial.path.parent, trial.key, uri)
    found = re.fullmatch(r"([^/:@]+)(?:@(?!v\d+$|latest$)([\w-]+))?", name)
    problems: list[Any] = []
    if to != "mlflow":
        problems.append(Problem("--register", f"is given with --to {to}", "only --to mlflow makes what MLflow serves"))
    if found is None:
        allowed = "must be NAME or NAME@ALIAS, the name without / and :, the alias of letters, digits, - and _"
        problems.append(Problem("--register", f'is "{name}"', allowed))
    if run_id is None:
        problems.append(Problem("--register", f"{trial.name} has no run at {uri}", "`ablate sync` carries it there"))
    if problems or found is None or run_id is None:
        raise RefusedError(problems)
    return Registration(found[1], found[2], run_id, uri)


def _register(folder: Path, to: Registration, card: str) -> None:
    try:
        register(folder, to.name, to.alias, to.run_id, to.uri, card)
    except RegistryError as error:
        allowed = f"the model lies in {folder}; when that is mended, remove the folder and export again"
        raise RefusedError([Problem("--register", f"failed: {error}", allowed)]) from error
