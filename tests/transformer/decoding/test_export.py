"""Exported weights give exactly the exported model and run no code; unmodified CTranslate2 computes
the same."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ctranslate2
import pytest
import torch
from small_trials import small_model, small_trial

from transformer.config import DataConfig, TrialConfig
from transformer.data.prepared import Prepared
from transformer.data.vocabulary import BOS, PAD
from transformer.decoding.export import (
    export_ctranslate2,
    export_weights,
    new_folder,
    open_exported,
)
from transformer.faults import FaultyError
from transformer.model.encoder_decoder import Transformer


class _Intruder:
    """Makes a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def model() -> Transformer:
    return small_model(270, positions="learned", attention_bias=True)


@pytest.fixture
def trial(model: Transformer) -> TrialConfig:
    places: dict[str, Any] = {name: [f"/home/anna/{name}"] * 2 for name in ("train", "dev", "test")}
    data = DataConfig("files", "en", "de", 270, "https://anna:secret@mirror.example/text", **places)
    return small_trial(data, model.config)


@pytest.fixture
def exported(model: Transformer, trial: TrialConfig, copies: Prepared, tmp_path: Path) -> Path:
    with new_folder(tmp_path / "exported") as folder:
        export_weights(model, copies.vocabulary_path, trial, folder)
    return tmp_path / "exported"


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the JSON in a file."""
    tree = json.loads(path.read_text("utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), "utf-8")


def test_an_exported_model_is_the_model(
    model: Transformer, trial: TrialConfig, copies: Prepared, exported: Path
) -> None:
    opened = open_exported(exported)
    config = json.loads((exported / "config.json").read_text("utf-8"))
    assert all(
        torch.equal(opened.model.state_dict()[name], weight)
        for name, weight in model.state_dict().items()
    )
    assert opened.vocabulary.texts() == copies.vocabulary.texts()
    assert (opened.decode, opened.precision) == (trial.decode, trial.train.precision)
    exported_trial = replace(
        trial, data=replace(trial.data, mirror=None, train=None, dev=None, test=None)
    )
    assert config == {"format": 1, "trial": asdict(exported_trial)}


def cut(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" + path.read_bytes()[:333])


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    **{
        f"cut {name}": (name, cut, name)
        for name in ("model.safetensors", "config.json", "vocabulary.model")
    },
    "missing": ("vocabulary.model", Path.unlink, "vocabulary.model: cannot be read"),
    "another format": (
        "config.json",
        lambda path: edit(path, lambda tree: tree.update(format=9)),
        "its format is 9",
    ),
    "weights that do not fit": (
        "config.json",
        lambda path: edit(path, lambda tree: tree["trial"]["model"].update(d_ff=127)),
        "model.safetensors: cannot be read: .* size mismatch",
    ),
    "two mistakes": (
        "config.json",
        lambda path: edit(path, lambda tree: tree["trial"]["model"].update(n_layer=1, d_ff="many")),
        r'(?s)model\.n_layer: is not a key.*model\.d_ff: is "many"',
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_named(exported: Path, name: str) -> None:
    file, damage, message = DAMAGES[name]
    damage(exported / file)
    with pytest.raises(FaultyError, match=message):
        open_exported(exported)


def test_weights_that_would_run_code_are_refused(exported: Path, tmp_path: Path) -> None:
    torch.save({"embedding": _Intruder(tmp_path / "run")}, exported / "model.safetensors")
    with pytest.raises(FaultyError, match="cannot be read"):
        open_exported(exported)
    assert not (tmp_path / "run").exists()


@torch.no_grad()
def log_p(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """log P of each piece of a target in nats; padding and beginning-of-sentence are never
    generated."""
    logits = model.logits(model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])))[0]
    logits[:, [PAD, BOS]] = -torch.inf
    log_probabilities: list[float] = (
        torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
    )
    return log_probabilities


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "learned"},
        {"attention_bias": True},
        {"d_k": 3, "d_v": 8},
        {"d_k": 24, "d_v": 5},
        {"attention_score": "dot", "d_k": 3, "d_v": 8},
    ],
    ids=str,
)
def test_any_model_is_the_same_function_of_its_input(
    changes: dict[str, Any], copies: Prepared, tmp_path: Path
) -> None:
    vocabulary = copies.vocabulary
    model = small_model(len(vocabulary), **changes)
    texts = vocabulary.texts()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    export_ctranslate2(model, copies.vocabulary_path, tmp_path)
    source, target = vocabulary.encode(["c a b d", "f e b"])
    opened = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    (scored,) = opened.score_batch(
        [[texts[piece] for piece in source[:-1]]], [[texts[piece] for piece in target[:-1]]]
    )
    assert scored.log_probs == pytest.approx(log_p(model, source, target), abs=1e-4)


def test_ctranslate2_continues_sinusoids_beyond_the_longest_training_pair(
    copies: Prepared, tmp_path: Path
) -> None:
    vocabulary = copies.vocabulary
    model = small_model(len(vocabulary))
    texts = vocabulary.texts()
    export_ctranslate2(model, copies.vocabulary_path, tmp_path)
    (pieces,) = vocabulary.encode(["c a b d " * 30])
    assert len(pieces) > model.config.max_positions
    opened = ctranslate2.Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    line = [texts[piece] for piece in pieces[:-1]]
    (scored,) = opened.score_batch([line], [line])
    assert scored.log_probs == pytest.approx(log_p(model, pieces, pieces), abs=1e-4)


@pytest.mark.parametrize(
    "changes",
    [
        {"attention_score": "additive"},
        {"encoder_layer": "recurrent"},
        {"attention_window": 5},
    ],
    ids=str,
)
def test_a_model_that_ctranslate2_cannot_compute_is_refused_and_the_own_format_holds_it(
    changes: dict[str, Any], copies: Prepared, tmp_path: Path
) -> None:
    model = small_model(270, **changes)
    ((name, value),) = changes.items()
    allowed = "must be safetensors or mlflow, which hold any model"
    with pytest.raises(FaultyError, match=f"cannot compute model.{name} {value}; {allowed}"):
        export_ctranslate2(model, copies.vocabulary_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
    export_weights(model, copies.vocabulary_path, small_trial(model=model.config), tmp_path)
    opened = open_exported(tmp_path).model
    assert opened.config == model.config
    source = torch.tensor([[5, 9, 7, 3]])
    assert torch.equal(opened(source, source), model(source, source))


def test_without_the_package_the_refusal_names_its_installation(
    model: Transformer, copies: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(
        FaultyError, match=r"is not installed; must be: pip install 'allelse\[export\]'"
    ):
        export_ctranslate2(model, copies.vocabulary_path, tmp_path)
    assert list(tmp_path.iterdir()) == []
