"""Decoding in other arithmetic than training: nearly the same results, and unsupported devices are refused."""

import numpy as np
import pytest
import torch
from trained_letters import Trained

from benchmarks.quantize import Arithmetic, quantize
from sweeps.schema import RefusedError
from transformer.data.batches import pad
from transformer.data.vocabulary import BOS
from transformer.decoding.search import beam_search
from transformer.model.encoder_decoder import Transformer


@torch.no_grad()
def probabilities(trained: Trained, model: Transformer) -> torch.Tensor:
    """Probabilities of every next piece of some sentences, in float32."""
    pairs = trained.prepared.pairs("test")
    source, target = pad(pairs.source, np.arange(20)), pad(pairs.target, np.arange(20))
    cache, steps = model.start(source), []
    for place in range(4):
        piece = target[:, place - 1 : place] if place else torch.full((20, 1), BOS)
        steps.append(model.step(piece, cache).float().softmax(-1))
    return torch.stack(steps)


@pytest.mark.parametrize(("arithmetic", "far"), [("fp32", 0.0), ("bf16", 0.05), ("int8", 0.15)])
def test_probabilities_stay_near_those_of_float32(trained: Trained, arithmetic: Arithmetic, far: float) -> None:
    expected = probabilities(trained, trained.model)
    found = probabilities(trained, quantize(trained.model, arithmetic))
    assert (found - expected).abs().max() <= far
    assert torch.equal(found, expected) == (arithmetic == "fp32")


@pytest.mark.parametrize("arithmetic", ["bf16", "int8"])
def test_most_outputs_equal_those_of_float32(trained: Trained, arithmetic: Arithmetic) -> None:
    source = pad(trained.prepared.pairs("test").source, np.arange(100))
    exact, found = (
        [best[0].pieces for best in beam_search(model, source, trained.trial.decode)]
        for model in (trained.model, quantize(trained.model, arithmetic))
    )
    assert sum(a == b for a, b in zip(exact, found, strict=True)) >= 85


def test_the_original_model_is_unchanged(trained: Trained) -> None:
    before = {name: weight.clone() for name, weight in trained.model.state_dict().items()}
    quantize(trained.model, "int8")
    after = trained.model.state_dict()
    assert {weight.dtype for weight in after.values()} == {torch.float32}
    assert all(torch.equal(before[name], weight) for name, weight in after.items())


def test_integers_are_refused_off_the_cpu(trained: Trained) -> None:
    elsewhere = Transformer(trained.model.config, trained.model.vocab_size).to("meta")
    with pytest.raises(RefusedError, match='is "int8" on a GPU; must be fp32 or bf16 there'):
        quantize(elsewhere, "int8")
