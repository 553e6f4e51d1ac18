"""Exports a trained model as plain data (weights, configuration, vocabulary) in one folder, and loads it."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor

from transformer.config import TrialConfig, read_trial
from transformer.data.vocabulary import Vocabulary
from transformer.faults import Fault, FaultyError, raise_any
from transformer.model.encoder_decoder import Transformer

WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.model"
FORMAT = 1
"""Increased whenever the layout of an exported folder changes."""
AS_EXPORTED = "must be unchanged since the export"


def export_weights(model: Transformer, vocabulary: Path, trial: TrialConfig, folder: Path) -> None:
    """Write weights (safetensors), configuration (JSON) and SentencePiece model for ``load_exported``.

    ``folder`` exists. Paths and mirrors of the text are left out: a mirror may contain a password, a path a name.
    """
    data = replace(trial.data, mirror=None, train=None, dev=None, test=None)
    weights = {name: weight.detach().float().cpu().contiguous() for name, weight in model.state_dict().items()}
    text = json.dumps({"format": FORMAT, "trial": asdict(replace(trial, data=data))}, indent=2, ensure_ascii=False)
    safetensors.torch.save_file(weights, folder / WEIGHTS)
    (folder / CONFIG).write_text(text + "\n", "utf-8")
    shutil.copyfile(vocabulary, folder / VOCABULARY)


def load_exported(folder: Path) -> tuple[Transformer, Vocabulary, TrialConfig]:
    """The model, ready to translate on the CPU, its vocabulary, and the configuration of its trial.

    Reads only data: nothing in the folder can run code. Raises FaultyError if a file is missing, damaged or misfit.
    """
    missing = [folder / name for name in (WEIGHTS, CONFIG, VOCABULARY) if not (folder / name).is_file()]
    raise_any(Fault(str(path), "is missing", "must be in an exported folder") for path in missing)
    trial = _read_config(folder / CONFIG)
    vocabulary = _read_vocabulary(folder / VOCABULARY)
    model = Transformer(trial.model, len(vocabulary))
    model.load_state_dict(_read_weights(folder / WEIGHTS, model))
    return model.eval(), vocabulary, trial


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, renamed to ``folder`` once it is complete. Raises FaultyError if ``folder`` exists."""
    if folder.exists():
        raise FaultyError(Fault(str(folder), "exists", "must be a new folder"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        workshop.chmod(0o755)  # mkdtemp's 0700 would hide the model from colleagues
        yield workshop
        os.rename(workshop, folder)  # noqa: PTH104 - atomic, and never replaces a folder with content
    except BaseException:
        shutil.rmtree(workshop, ignore_errors=True)
        raise


def _read_config(path: Path) -> TrialConfig:
    try:
        tree = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise FaultyError(Fault(str(path), f"is not JSON ({error})", AS_EXPORTED)) from error
    if not isinstance(tree, dict) or tree.get("format") != FORMAT:
        raise FaultyError(Fault(str(path), "has another format", f'must contain "format": {FORMAT}'))
    return read_trial(tree.get("trial"))


def _read_vocabulary(path: Path) -> Vocabulary:
    try:
        return Vocabulary(path)
    except (OSError, RuntimeError) as error:
        raise FaultyError(Fault(str(path), "is not a SentencePiece model", AS_EXPORTED)) from error


def _read_weights(path: Path, model: Transformer) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = safetensors.torch.load_file(path)
    except safetensors.SafetensorError as error:
        raise FaultyError(Fault(str(path), f"cannot be read ({error})", AS_EXPORTED)) from error
    expected = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    found = {name: list(weight.shape) for name, weight in weights.items()}
    if found != expected:
        raise FaultyError(Fault(str(path), f"does not fit {CONFIG} and {VOCABULARY}", AS_EXPORTED))
    return weights
