"""Exported weights give exactly the exported model and run no code; unmodified CTranslate2 computes the same."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np
import pytest
import torch
from small_trials import DECODE, small_model
from trained_letters import Trained

from sweeps.task import RefusedError
from transformer.config import TrialConfig
from transformer.data.batches import pad
from transformer.data.prepared import Sentences
from transformer.data.vocabulary import BOS, EOS, PAD, Vocabulary
from transformer.decoding.export import export_ctranslate2, export_weights, load_exported, new_folder
from transformer.decoding.search import beam_search
from transformer.model.encoder_decoder import Transformer


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
    assert all(torch.equal(model.state_dict()[name], weight) for name, weight in trained.model.state_dict().items())


def test_paths_and_mirrors_of_the_text_are_left_out(trained: Trained, tmp_path: Path) -> None:
    data = replace(trained.trial.data, mirror="https://anna:secret@mirror.example/text")
    folder = written(trained.model, trained.vocabulary, replace(trained.trial, data=data), tmp_path / "exported")
    for secret in (b"secret", b"mirror.example", str(trained.prepared.folder.parents[1]).encode()):
        assert not [path.name for path in folder.iterdir() if secret in path.read_bytes()]
    kept = asdict(load_exported(folder)[2].data)
    places = ("mirror", "train", "dev", "test")
    assert [kept.pop(name) for name in places] == [None] * 4
    assert kept == {name: value for name, value in asdict(data).items() if name not in places}


def cut(path: Path) -> None:
    path.write_bytes(b"\xff\xfe" + path.read_bytes()[:333])


DAMAGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    **{f"cut {name}": (name, cut, name) for name in ("model.safetensors", "config.json", "vocabulary.model")},
    "missing": ("vocabulary.model", Path.unlink, "vocabulary.model: cannot be read"),
    "another format": ("config.json", lambda path: edit(path, lambda tree: tree.update(format=9)), "its format is 9"),
    "weights that do not fit": (
        "config.json",
        lambda path: edit(path, lambda tree: tree["trial"]["model"].update(d_ff=127)),
        "model.safetensors: cannot be read: .* size mismatch",
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_named(exported: Path, name: str) -> None:
    file, damage, said = DAMAGES[name]
    damage(exported / file)
    with pytest.raises(RefusedError, match=said):
        load_exported(exported)


def test_every_mistake_of_a_configuration_is_reported(exported: Path) -> None:
    edit(exported / "config.json", lambda tree: tree["trial"]["model"].update(n_layer=1, d_ff="many"))
    with pytest.raises(RefusedError) as refused:
        load_exported(exported)
    assert {problem.key for problem in refused.value.problems} == {"model.n_layer", "model.d_ff"}


def test_weights_that_would_run_code_are_refused(exported: Path, tmp_path: Path) -> None:
    torch.save({"embedding": _Intruder(tmp_path / "run")}, exported / "model.safetensors")
    with pytest.raises(RefusedError, match="cannot be read"):
        load_exported(exported)
    assert not (tmp_path / "run").exists()


ROOM = 40
"""Most pieces per output; these sentences need a quarter."""


def opened(folder: Path) -> ctranslate2.Translator:
    return ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)


@pytest.fixture(scope="module")
def ctranslated(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export_ctranslate2(trained.model, trained.vocabulary, folder)
    return folder


@torch.no_grad()
def log_p(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """log P of each piece of a target in nats; padding and beginning-of-sentence are never generated."""
    logits = model.logits(model(torch.tensor([source]), torch.tensor([[BOS, *target[:-1]]])))[0]
    logits[:, [PAD, BOS]] = -torch.inf
    chosen: list[float] = torch.log_softmax(logits, -1).gather(1, torch.tensor(target)[:, None])[:, 0].tolist()
    return chosen


def best_of_ours(model: Transformer, sources: Sentences, beam: int) -> list[list[int]]:
    batch = pad(sources, np.arange(len(sources)))
    return [
        best[0].pieces[:ROOM]
        for best in beam_search(model, batch, replace(DECODE, beam=beam, alpha=0.0, max_extra=ROOM))
    ]


def best_of_ctranslate2(folder: Path, vocabulary: Vocabulary, sources: Sentences, beam: int) -> list[list[int]]:
    texts = vocabulary.texts()
    tokens = [[texts[piece] for piece in sources[i][:-1]] for i in range(len(sources))]
    results = opened(folder).translate_batch(
        tokens, beam_size=beam, length_penalty=0, min_decoding_length=0, max_decoding_length=ROOM
    )
    return [[texts.index(token) for token in result.hypotheses[0]] for result in results]


def where_they_part(first: list[int], second: list[int]) -> int:
    """Number of pieces up to the first difference, including it and end-of-sentence: there greedy search decided."""
    pairs = zip([*first, EOS], [*second, EOS], strict=False)
    return next(place for place, (a, b) in enumerate(pairs, start=1) if a != b)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_trained_model_finds_the_same_outputs_or_nearly_tied_ones(
    trained: Trained, ctranslated: Path, beam: int
) -> None:
    sources = trained.prepared.pairs("test").source
    ours = best_of_ours(trained.model, sources, beam)
    theirs = best_of_ctranslate2(ctranslated, trained.prepared.vocabulary, sources, beam)
    different = [i for i in range(len(sources)) if ours[i] != theirs[i]]
    assert len({tuple(pieces) for pieces in ours}) > 100
    assert len(different) <= len(sources) / 100
    for i in different:
        decided = where_they_part(ours[i], theirs[i]) if beam == 1 else ROOM
        totals = [
            sum(log_p(trained.model, sources[i].tolist(), [*pieces, EOS][:decided])) for pieces in (ours[i], theirs[i])
        ]
        assert totals[0] == pytest.approx(totals[1], abs=1e-3)


@pytest.mark.parametrize(
    "changes",
    [{"positions": "learned"}, {"attention_bias": True}, {"d_k": 3, "d_v": 8}, {"d_k": 24, "d_v": 5}],
    ids=str,
)
def test_any_model_is_the_same_function_of_its_input(changes: dict[str, Any], trained: Trained, tmp_path: Path) -> None:
    vocabulary = trained.prepared.vocabulary
    model, texts = small_model(len(vocabulary), **changes), vocabulary.texts()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.3)
    export_ctranslate2(model, trained.vocabulary, tmp_path)
    source, target = vocabulary.encode(["c a b d", "j i h"])
    (scored,) = opened(tmp_path).score_batch(
        [[texts[piece] for piece in source[:-1]]], [[texts[piece] for piece in target[:-1]]]
    )
    assert scored.log_probs == pytest.approx(log_p(model, source, target), abs=1e-4)


def test_without_the_package_the_refusal_names_its_installation(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2.specs", None)
    with pytest.raises(RefusedError, match=r"is not installed; must be: pip install 'allelse\[export\]'"):
        export_ctranslate2(trained.model, trained.vocabulary, tmp_path)
    assert list(tmp_path.iterdir()) == []
