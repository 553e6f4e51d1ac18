"""``ablate export``: a finished trial's model in a format of another tool, with a card."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never

from rich.console import Console
from rich.markup import escape

import transformer
from sweeps.schema import Problem, RefusedError
from sweeps.trained.card import Card
from sweeps.trained.evaluate import recorded_scores
from sweeps.trained.export_kind import ExportKind
from sweeps.trained.models import EXPORTED, of_trial
from sweeps.trained.request import Request
from sweeps.trained.saved_trial import SavedTrial
from tracking.ledger import run_of_trial
from tracking.registry import RegistryError, register, save_model
from tracking.uri import default_uri, without_password
from transformer.config import TrialConfig
from transformer.decoding import serve
from transformer.decoding.ctranslate import export_ctranslate2
from transformer.decoding.export import export_weights, new_folder
from transformer.decoding.translate import Translator

SERVED_WITH = ("torch", "numpy", "sentencepiece", "safetensors", "filelock", "pooch")
"""The packages that the exported code imports."""
NAME = re.compile(r"[^/:@]+(@(?!v\d+$|latest$)[\w-]+)?")
"""The names that may be registered: MLflow reads the aliases v1 and latest as versions."""


@dataclass(frozen=True)
class Registration:
    """The name and alias of a registered model, and its trial's run at ``uri``: "" if there is no run."""

    name: str
    alias: str | None
    run_id: str
    uri: str

    @property
    def model_uri(self) -> str:
        return f"models:/{self.name}@{self.alias}" if self.alias else f"models:/{self.name}/latest"


def export(
    request: Request,
    trials: list[SavedTrial],
    to: ExportKind,
    output: Path | None,
    name: str | None,
    err: Console,
) -> tuple[Path, Registration | None]:
    """Returns the new folder and the registration, if any. Raises RefusedError."""
    trial = _one(trials)
    folder = output or Path(f"{trial.path.parent.name}-{trial.path.name}-{to}")
    problems = (
        [Problem("--output", f"{folder} exists", "must be a new folder: --output NEW")] if folder.exists() else []
    )
    registration = None
    if name is not None:
        registration = _registration(trial, request, name)
        problems += _not_registered(trial, to, name, registration)
    if problems:
        raise RefusedError(problems)
    with err.status(f"Exporting {escape(trial.name)}"):
        translator = of_trial(trial, request)
        card = _card(trial, translator).text(to)
        with new_folder(folder) as made:  # all of it or nothing, so that the command can be repeated
            _write(trial, translator, to, made)
            (made / "README.md").write_text(card, "utf-8")
            if registration:
                _register(made, registration, card, trial.path.parents[1])
    return folder, registration


def _write(trial: SavedTrial, translator: Translator, to: ExportKind, folder: Path) -> None:
    """Write into ``folder``, which exists and is empty."""
    vocabulary = trial.prepared().vocabulary_path
    match to:
        case ExportKind.ctranslate2:
            export_ctranslate2(translator.model, vocabulary, folder)
        case ExportKind.safetensors:
            export_weights(translator.model, vocabulary, _as_exported(trial, translator), folder)
        case ExportKind.mlflow:
            with tempfile.TemporaryDirectory() as temporary:
                data = Path(temporary) / EXPORTED
                data.mkdir()
                export_weights(translator.model, vocabulary, _as_exported(trial, translator), data)
                save_model(folder, serve.__name__, data, Path(transformer.__file__).parent, list(SERVED_WITH))
        case _:
            assert_never(to)


def _as_exported(trial: SavedTrial, translator: Translator) -> TrialConfig:
    """Without averaging: the exported weights are the mean already."""
    return replace(trial.config, decode=replace(translator.decode, average_checkpoints=1))


def _card(trial: SavedTrial, translator: Translator) -> Card:
    prepared = trial.prepared()
    config = replace(trial.config, decode=translator.decode)
    example = next(line for line in prepared.sources(prepared.evaluation_sets[0]) if line.strip())
    return Card(trial, config, recorded_scores(trial, translator.decode), len(translator.vocabulary), example)


def _one(trials: list[SavedTrial]) -> SavedTrial:
    if len(trials) > 1:
        found = f"names {len(trials)} trials: {', '.join(trial.name for trial in trials)}"
        raise RefusedError([Problem("TRIAL", found, "must name one trial")])
    return trials[0]


def _registration(trial: SavedTrial, request: Request, name: str) -> Registration:
    """The registration that --register NAME[@ALIAS] requests."""
    uri = request.shared.tracking.uri or default_uri(trial.path.parents[1])
    model, _, alias = name.partition("@")
    return Registration(model, alias or None, run_of_trial(trial.path.parent, trial.key, uri) or "", uri)


def _not_registered(trial: SavedTrial, to: ExportKind, name: str, registration: Registration) -> Iterator[Problem]:
    """The problems of --register, found before anything is written."""
    if to is not ExportKind.mlflow:
        yield Problem("--register", f"is given with --to {to}", "needs --to mlflow: MLflow serves no other format")
    if not NAME.fullmatch(name):
        allowed = "must be NAME or NAME@ALIAS: no / or : in NAME; only letters, digits, - and _ in ALIAS"
        yield Problem("--register", f'is "{name}"', allowed)
    if not registration.run_id:
        found = f"{trial.name} has no run at {without_password(registration.uri, mark='')}"
        yield Problem("--register", found, "run `ablate sync` to create it")


def _register(folder: Path, to: Registration, card: str, runs: Path) -> None:
    try:
        register(folder, to.name, to.alias, to.run_id, to.uri, card, runs)
    except RegistryError as error:
        raise RefusedError([Problem("--register", f"failed: {error}", "fix the cause, then run it again")]) from error
