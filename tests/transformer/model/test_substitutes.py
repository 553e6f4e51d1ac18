"""Recurrence and convolutions against the formulas, with padding, and what the model refuses of
them."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import SMALL, small_model, small_trial
from torch import Tensor

from transformer.cautions import _layer_cautions
from transformer.config import ModelConfig
from transformer.data.vocabulary import EOS, PAD
from transformer.model.encoder_decoder import Transformer
from transformer.model.substitutes import (
    Convolution,
    Recurrence,
    SeparableConvolution,
    reversed_pieces,
)
from transformer.training.loss import summed_loss

LAYERS: list[dict[str, Any]] = [
    {"encoder_layer": "recurrent"},
    {"encoder_layer": "convolutional", "kernel": 3},
    {"encoder_layer": "convolutional", "kernel": 5, "dilation": 3},
    {"encoder_layer": "separable"},
]
S = 9
D = SMALL.d_model


def model_of(**changes: Any) -> ModelConfig:
    return replace(SMALL, **changes)


def sentence(length: int) -> Tensor:
    """Pieces [length], the last one end-of-sentence."""
    pieces = torch.randint(4, 30, (length,), generator=torch.Generator().manual_seed(length))
    pieces[-1] = EOS
    return pieces


def together(*sentences: Tensor) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True, padding_value=PAD)


def encoded(model: Transformer, source: Tensor) -> Tensor:
    return model._encode(source, model._source_mask(source))


@pytest.mark.parametrize("changes", LAYERS, ids=str)
def test_a_sentence_is_encoded_alike_alone_and_in_a_padded_batch(changes: dict[str, Any]) -> None:
    model = small_model(**changes).double()
    sentences = [sentence(length) for length in (12, 1, 5, 9)]
    batch = encoded(model, together(*sentences))
    for row, pieces in enumerate(sentences):
        expected = encoded(model, pieces[None])[0]
        torch.testing.assert_close(batch[row, : len(pieces)], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("changes", LAYERS, ids=str)
def test_the_gradients_of_a_padded_batch_are_the_sum_of_those_of_its_sentences(
    changes: dict[str, Any],
) -> None:
    """Rows of padding, as CUDA graphs add them, change nothing."""
    model = small_model(**changes).train()
    sentences = [sentence(length) for length in (12, 1, 5)]
    filler = torch.tensor([EOS])
    source = together(*sentences, filler)
    target = together(*sentences, torch.tensor([PAD]))
    summed_loss(model, model(source, target, source_padded=True), target, 0.1).backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    for pieces in sentences:
        alone = pieces[None]
        summed_loss(model, model(alone, alone), alone, 0.1).backward()
    for name, weight in model.named_parameters():
        gradient = gradients[name]
        assert gradient is not None
        assert gradient.isfinite().all()
        torch.testing.assert_close(gradient, weight.grad, rtol=1e-4, atol=1e-5)


def test_a_reversed_sentence_keeps_its_padding_last() -> None:
    x = torch.arange(10.0).view(2, 5, 1)
    pad = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    assert reversed_pieces(x, pad)[..., 0].tolist() == [[4, 3, 2, 1, 0], [7, 6, 5, 8, 9]]
    assert torch.equal(reversed_pieces(reversed_pieces(x, pad), pad), x)
    assert torch.equal(reversed_pieces(x, None), x.flip(1))


@torch.no_grad()
def test_recurrence_is_torchs_bidirectional_lstm_on_packed_sentences() -> None:
    ours = Recurrence(SMALL)
    theirs = torch.nn.LSTM(D, D // 2, batch_first=True, bidirectional=True)
    theirs.load_state_dict(
        {
            **ours.from_start.state_dict(),
            **{f"{name}_reverse": weight for name, weight in ours.from_end.state_dict().items()},
        }
    )
    x = torch.randn(3, S, D)
    lengths = torch.tensor([S, 1, 4])
    pad = torch.arange(S) >= lengths[:, None]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(packed)[0], batch_first=True)
    output = ours(x, pad).masked_fill(pad[:, :, None], 0)
    torch.testing.assert_close(output, expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_recurrence_runs_in_float32_in_a_bfloat16_trial(dtype: torch.dtype) -> None:
    recurrence = Recurrence(SMALL)
    x = torch.randn(2, S, D).to(dtype)
    expected = recurrence(x.float(), None)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = recurrence(x, None)
    assert output.dtype == dtype
    torch.testing.assert_close(output, expected.to(dtype), rtol=0, atol=0)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 2])
@pytest.mark.parametrize("kind", [Convolution, SeparableConvolution])
def test_a_convolution_is_the_sum_over_its_kernel_dilated_by_layer(kind: Any, layer: int) -> None:
    model = model_of(kernel=3, dilation=2)
    module = kind(model, layer)
    x = torch.randn(2, S, D)
    weight = module.convolution.weight
    expected = torch.zeros(2, S, D)
    for position in range(S):
        for tap in range(3):
            source = position + (tap - 1) * 2**layer
            if 0 <= source < S and kind is Convolution:
                expected[:, position] += x[:, source] @ weight[:, :, tap].T
            elif 0 <= source < S:
                expected[:, position] += x[:, source] * weight[:, 0, tap]
    if kind is SeparableConvolution:
        expected = expected @ module.projection.weight.T
    torch.testing.assert_close(module(x, None), expected, rtol=1e-5, atol=1e-5)


def test_the_weights_start_by_their_own_shapes() -> None:
    big: dict[str, Any] = {"d_model": 64, "d_ff": 8, "n_layers": 1, "kernel": 5}

    def bound(weight: Tensor) -> float:
        return weight.abs().max().item()

    def weights(encoder_layer: str) -> dict[str, Tensor]:
        """The weights of the layer's substitute, by name."""
        model = small_model(**big, encoder_layer=encoder_layer)
        prefix = "encoder.0.substitute."
        return {
            name.removeprefix(prefix): weight.detach()
            for name, weight in model.named_parameters()
            if name.startswith(prefix)
        }

    lstm = weights("recurrent")
    for gate in lstm["from_end.weight_ih_l0"].chunk(4):
        assert bound(gate) == pytest.approx(math.sqrt(6 / (64 + 32)), rel=0.02)
    for gate in lstm["from_end.weight_hh_l0"].chunk(4):
        assert bound(gate) == pytest.approx(math.sqrt(6 / (32 + 32)), rel=0.02)
    assert lstm["from_end.bias_hh_l0"].tolist() == [0] * 128
    assert lstm["from_end.bias_ih_l0"].tolist() == [0] * 32 + [1] * 32 + [0] * 64
    full = weights("convolutional")["convolution.weight"]
    assert bound(full) == pytest.approx(math.sqrt(6 / (10 * 64)), rel=0.02)
    separable = weights("separable")
    assert bound(separable["convolution.weight"]) == pytest.approx(math.sqrt(3 / 5), rel=0.02)
    assert bound(separable["projection.weight"]) == pytest.approx(math.sqrt(6 / 128), rel=0.02)


@pytest.mark.parametrize("changes", LAYERS, ids=str)
def test_bfloat16_is_near_float32(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    source = together(sentence(9), sentence(4))
    expected = encoded(model, source)
    with torch.autocast("cpu", torch.bfloat16):
        output = encoded(model, source)
    assert (output - expected).norm() < 0.03 * expected.norm()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"kernel": 4},
            "model.kernel: is 4; must be odd: a convolution reads as many pieces before as after"
            " its own. Did you mean 5?",
        ),
        (
            {"encoder_layer": "recurrent", "d_model": 15, "positions": "learned"},
            "model.d_model: is 15; must be even with recurrent layers, which read in two"
            " directions.",
        ),
        (
            {"encoder_layer": "separable", "dilation": 100, "n_layers": 6},
            "model.dilation: is 100: 1e+10 pieces apart in the last layer; must reach at most"
            " 100000 there.",
        ),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    assert list(map(str, small_trial(model=model_of(**changes)).problems())) == [said]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"encoder_layer": "separable", "kernel": 3, "dilation": 2}, []),
        ({}, []),
        (
            {"kernel": 3},
            [
                "model.kernel is 3, which changes no attention layer;"
                " it needs model.encoder_layer=convolutional or separable"
            ],
        ),
    ],
    ids=str,
)
def test_a_kernel_without_a_convolution_is_a_caution(
    changes: dict[str, Any], said: list[str]
) -> None:
    assert list(_layer_cautions(model_of(**changes))) == said
