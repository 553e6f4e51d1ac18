"""Parameters and FLOPs of every kind of score, layer and window by formula, against the built model
and what torch counts."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import SMALL, small_model
from torch.utils.flop_counter import FlopCounterMode

from transformer.config import ModelConfig
from transformer.cost import Lengths, forward_flops, parameters, training_flops
from transformer.training.loss import summed_loss

VOCABULARY = 30
SENTENCES = 2
VARIANTS: list[dict[str, Any]] = [
    {"attention_score": "dot"},
    {"attention_score": "additive"},
    {"attention_score": "additive", "attention_bias": True},
    {"encoder_layer": "recurrent"},
    {"encoder_layer": "convolutional", "kernel": 3},
    {"encoder_layer": "convolutional", "kernel": 5, "dilation": 2},
    {"encoder_layer": "separable"},
    {"encoder_layer": "separable", "kernel": 9, "dilation": 3},
    {"attention_window": 1},
    {"attention_window": 7},
    {"attention_window": 39},
    {"attention_window": 99, "attention_score": "additive"},
    {"attention_window": 3, "encoder_layer": "recurrent"},
]


def lengths(model: ModelConfig, source: int, target: int) -> Lengths:
    """Those of a batch without padding, which torch would count too."""
    return Lengths.of(source, target, model.attention_radius) * SENTENCES


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_parameters_by_formula_are_those_of_the_built_model(changes: dict[str, Any]) -> None:
    built = small_model(VOCABULARY, **changes)
    n_parameters = sum(parameter.numel() for parameter in built.parameters())
    assert parameters(built.config, VOCABULARY) == n_parameters


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """torch counts no fused LSTM, so it runs gate by gate here.

    Of a convolution's gradients it ignores the groups: it would count a depthwise one d times.
    """
    formulas = {torch.ops.aten.convolution_backward: grouped_convolution_backward}
    with (
        torch.backends.mkldnn.flags(enabled=False),
        FlopCounterMode(display=False, custom_mapping=formulas) as counter,
    ):
        yield counter


def grouped_convolution_backward(
    gradient: list[int],
    x: list[int],
    weight: list[int],
    *arguments: Any,
    out_shape: Any,
    **options: Any,
) -> int:
    """Twice the forward pass: the gradients of the input and of the weight."""
    assert [list(shape) for shape in out_shape[:2]] == [list(x), list(weight)]
    outputs, inputs, kernel = weight
    batch, _, length = gradient
    flops: int = 2 * (2 * batch * length * outputs * inputs * kernel)
    return flops


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(("source", "target"), [(1, 1), (7, 4), (23, 39)])
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_flops_by_formula_are_those_that_torch_counts(
    changes: dict[str, Any], source: int, target: int
) -> None:
    model = small_model(VOCABULARY, **changes).train()
    sources = torch.randint(4, VOCABULARY, (SENTENCES, source))
    targets = torch.randint(4, VOCABULARY, (SENTENCES, target))
    with counted_flops() as forward:
        model.logits(model(sources, targets))
    with counted_flops() as training:
        summed_loss(model, model(sources, targets), targets, 0.1).backward()
    sums = lengths(model.config, source, target)
    assert forward.get_total_flops() == forward_flops(model.config, VOCABULARY, sums)
    assert training.get_total_flops() == training_flops(model.config, VOCABULARY, sums)


def test_a_variant_of_another_size_has_other_costs() -> None:
    additive = replace(SMALL, attention_score="additive")
    heads = SMALL.n_heads
    width = SMALL.d_k
    layers = 3 * SMALL.n_layers
    assert parameters(additive, 30) - parameters(SMALL, 30) == heads * width * layers
