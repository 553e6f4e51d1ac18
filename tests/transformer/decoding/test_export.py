"""Exported weights: loading returns exactly the exported model, and runs no code."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trials import small_model, small_trial
from trained_letters import Trained

from transformer.config import TrialConfig
from transformer.decoding.export import export_weights, load_exported, new_folder
from transformer.decoding.search import beam_search
from transformer.faults import FaultyError
from transformer.model.encoder_decoder import Transformer

LOADS_ALONE = """
import sys
from pathlib import Path
from transformer.decoding.export import load_exported
from transformer.decoding.search import beam_search
model, vocabulary, trial = load_exported(Path(sys.argv[1]))
import torch
((best, *_),) = beam_search(model, torch.tensor(vocabulary.encode(["b g a"])), trial.decode)
print(vocabulary.decode([best.pieces])[0])
unneeded = ("transformer.training.train", "transformer.training.state", "ctranslate2", "sacrebleu")
print(sorted(name for name in sys.modules if name.startswith(unneeded)))
"""


class _Intruder:
    """Makes a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def exported(trained: Trained, tmp_path: Path) -> Path:
    return written(trained.model, trained.vocabulary, trained.trial, tmp_path / "exported")


def written(model: Transformer, vocabulary: Path, trial: TrialConfig, folder: Path) -> Path:
    """``folder``, new and complete."""
    with new_folder(folder) as made:
        export_weights(model, vocabulary, trial, made)
    return folder


def edit(path: Path, change: Callable[[Any], object]) -> None:
    """Change the JSON in a file."""
    tree = json.loads(path.read_text("utf-8"))
    change(tree)
    path.write_text(json.dumps(tree), "utf-8")


def test_an_exported_model_is_the_model(trained: Trained, exported: Path) -> None:
    model, vocabulary, trial = load_exported(exported)
    assert replace(trial, data=trained.trial.data) == trained.trial
    assert vocabulary.texts() == trained.prepared.vocabulary.texts()
    source = torch.tensor(vocabulary.encode(["j a b c"]))
    assert beam_search(model, source, trial.decode) == beam_search(trained.model, source, trial.decode)
    assert not model.training


@pytest.mark.parametrize("changes", [{"positions": "learned"}, {"attention_bias": True, "d_k": 3}], ids=str)
def test_every_kind_of_model_is_restored_bit_for_bit(trained: Trained, tmp_path: Path, changes: dict[str, Any]) -> None:
    model = small_model(281, **changes)
    folder = written(model, trained.vocabulary, small_trial(model=model.config), tmp_path / "exported")
    found, _, _ = load_exported(folder)
    assert all(torch.equal(found.state_dict()[name], weight) for name, weight in model.state_dict().items())


def test_paths_and_mirrors_of_the_text_are_left_out(trained: Trained, tmp_path: Path) -> None:
    data = replace(trained.trial.data, mirror="https://anna:secret@mirror.example/text")
    folder = written(trained.model, trained.vocabulary, replace(trained.trial, data=data), tmp_path / "exported")
    for secret in (b"secret", b"mirror.example", str(trained.prepared.folder.parents[1]).encode()):
        assert not [path.name for path in folder.iterdir() if secret in path.read_bytes()]
    kept = asdict(load_exported(folder)[2].data)
    places = ("mirror", "train", "dev", "test")
    assert [kept.pop(name) for name in places] == [None] * 4
    assert kept == {name: value for name, value in asdict(data).items() if name not in places}


def test_it_is_loaded_without_the_training_code(exported: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS_ALONE, str(exported)], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["b g a", "[]"]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "vocabulary.model"])
def test_a_damaged_file_is_named(exported: Path, name: str) -> None:
    (exported / name).write_bytes(b"\xff\xfe" + (exported / name).read_bytes()[: 1000 // 3])
    with pytest.raises(FaultyError, match=name):
        load_exported(exported)


def test_every_mistake_of_a_configuration_is_reported(exported: Path) -> None:
    edit(exported / "config.json", lambda tree: tree["trial"]["model"].update(n_layer=1, d_ff="many"))
    with pytest.raises(FaultyError) as refused:
        load_exported(exported)
    assert {fault.key for fault in refused.value.faults} == {"model.n_layer", "model.d_ff"}


def test_weights_that_do_not_fit_the_configuration_are_refused(exported: Path) -> None:
    edit(exported / "config.json", lambda tree: tree["trial"]["model"].update(d_ff=127))
    with pytest.raises(FaultyError, match=r"model.safetensors: does not fit config.json"):
        load_exported(exported)


def test_weights_that_would_run_code_are_refused(exported: Path, tmp_path: Path) -> None:
    torch.save({"embedding": _Intruder(tmp_path / "run")}, exported / "model.safetensors")
    with pytest.raises(FaultyError, match="cannot be read"):
        load_exported(exported)
    assert not (tmp_path / "run").exists()
