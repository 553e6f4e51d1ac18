"""The weights of a picture are those of the forward pass: they explain the layers' outputs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from small_trials import small_model
from torch import Tensor
from torch.nn import functional as F

from transformer.data.vocabulary import BOS, EOS, PAD
from transformer.model.encoder_decoder import Transformer
from transformer.model.observation import Attention, attentions_by_place, observed
from transformer.pictures.weights import attention_weights

SOURCE = torch.tensor([[5, 6, 7, 8, 9, 10, 11, EOS], [12, 13, EOS, PAD, PAD, PAD, PAD, PAD]])
SHIFTED = torch.tensor([[BOS, 20, 21, 22, 23, 24], [BOS, 25, 26, PAD, PAD, PAD]])
REAL = {
    "encoder": (SOURCE != PAD, SOURCE != PAD),
    "decoder": (SHIFTED != PAD, SHIFTED != PAD),
    "cross": (SHIFTED != PAD, SOURCE != PAD),
}
MODELS: dict[str, dict[str, Any]] = {
    "base": {},
    "biases": {"attention_bias": True},
    "dot": {"attention_score": "dot"},
    "additive": {"attention_score": "additive"},
    "window": {"attention_window": 3},
    "wide window": {"attention_window": 41},
    "recurrent": {"encoder_layer": "recurrent"},
    "convolutional": {"encoder_layer": "convolutional"},
    "separable": {"encoder_layer": "separable"},
}


def model_of(changes: dict[str, Any]) -> Transformer:
    """A model whose weights are large enough for uneven attention; biases, too, are random."""
    model = small_model(**changes)
    with torch.no_grad():
        for attention in model.attentions():
            for weight in attention.parameters():
                weight.copy_(torch.randn_like(weight))
    return model


@contextmanager
def calls_of(model: Transformer) -> Iterator[dict[Attention, tuple[Tensor, Tensor, Tensor]]]:
    """For each attention: what its values are made of, their number per head, and its output."""
    calls: dict[Attention, tuple[Tensor, Tensor, Tensor]] = {}
    encoded: list[Tensor] = []
    hooks = [model.encoder[-1].register_forward_hook(lambda *call: encoded.append(call[2]))]

    def keep(attention: Any, inputs: tuple[Any, ...], output: Any) -> None:
        is_cross = isinstance(output, Tensor)
        read = encoded[-1] if is_cross else inputs[0]
        calls[attention] = read, inputs[0], output if is_cross else output[0]

    hooks += [attention.register_forward_hook(keep) for attention in model.attentions()]
    yield calls
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("name", MODELS)
def test_weights_times_values_through_the_output_projection_are_the_layers_output(
    name: str,
) -> None:
    model = model_of(MODELS[name])
    with calls_of(model) as calls:
        weights = attention_weights(model, SOURCE, SHIFTED)
    for place, attentions in attentions_by_place(model).items():
        for layer, attention in enumerate(attentions):
            read, _, output = calls[attention]
            weight, bias = attention.projections()[2]
            value_BHSV = attention.heads(F.linear(read, weight, bias))
            summed_BHTV = weights[place][layer] @ value_BHSV
            expected = attention.output(summed_BHTV.transpose(1, 2).flatten(2))
            real_BT, _ = REAL[place]
            difference = (expected - output)[real_BT].abs().max()
            assert difference <= 1e-5 * output.abs().max(), (place, layer)


@pytest.mark.parametrize("name", MODELS)
def test_each_row_sums_to_1_and_reads_neither_padding_nor_the_future(name: str) -> None:
    model = model_of(MODELS[name])
    weights = attention_weights(model, SOURCE, SHIFTED)
    expected = {"encoder", "decoder", "cross"}
    assert set(weights) == (
        expected if model.config.encoder_layer == "attention" else expected - {"encoder"}
    )
    for place, weights_LBHTS in weights.items():
        queries_BT, keys_BS = REAL[place]
        assert weights_LBHTS.shape[:3] == (2, 2, 2)
        torch.testing.assert_close(
            weights_LBHTS.sum(-1), torch.ones(weights_LBHTS.shape[:-1]), rtol=0, atol=1e-5
        )
        illegal_BTS = queries_BT[:, :, None] & ~keys_BS[:, None]
        if place == "decoder":
            illegal_BTS |= torch.ones(6, 6, dtype=torch.bool).triu(1)
        if place != "cross" and model.config.attention_radius is not None:
            apart = (
                torch.arange(len(illegal_BTS[0]))[:, None] - torch.arange(len(illegal_BTS[0]))
            ).abs()
            illegal_BTS |= (apart > model.config.attention_radius) & queries_BT[:, :, None]
        is_illegal = illegal_BTS[None, :, None].expand_as(weights_LBHTS)
        assert is_illegal.any()
        assert weights_LBHTS[is_illegal].eq(0).all()


@pytest.mark.parametrize("name", MODELS)
def test_looking_changes_no_bit_and_leaves_no_observer(name: str) -> None:
    model = model_of(MODELS[name])
    seen = list[Tensor]()
    before = model(SOURCE, SHIFTED)
    weights = attention_weights(model, SOURCE, SHIFTED)
    assert all(attention.observer is None for attention in model.attentions())
    assert model(SOURCE, SHIFTED).equal(before)
    with calls_of(model) as calls, torch.no_grad():  # as below: with gradients, kernels may differ
        model(SOURCE, SHIFTED)
    unseen = [output for _, _, output in calls.values()]
    with calls_of(model) as calls:
        attention_weights(model, SOURCE, SHIFTED)
    seen = [output for _, _, output in calls.values()]
    if model.config.attention_window is None:  # it looks at all of a window's chunks at once
        assert all(one.equal(other) for one, other in zip(seen, unseen, strict=True))
    again = attention_weights(model, SOURCE, SHIFTED)
    assert all(again[place].equal(weights[place]) for place in weights)


def test_an_error_leaves_no_observer() -> None:
    model = small_model()
    attentions = list(model.attentions())
    with pytest.raises(RuntimeError), observed(dict.fromkeys(attentions, lambda *_: None)):
        raise RuntimeError
    assert all(attention.observer is None for attention in attentions)
