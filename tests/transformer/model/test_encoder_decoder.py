"""The complete encoder–decoder: positions, masks, places of dropout, initialization, and cached
decoding."""

import math
from typing import Any
from unittest.mock import patch

import pytest
import torch
from small_trials import SMALL, small_model
from torch import Tensor

from transformer.data.vocabulary import BOS, PAD
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.encoder_decoder import Cache, FeedForward, Transformer, sinusoids
from transformer.model.on_cpu import _CpuDropout


@pytest.mark.parametrize("d_model", [2, 6, 512])
def test_sinusoids_are_interleaved_sines_and_cosines_of_the_papers_formula(d_model: int) -> None:
    table = sinusoids(50, d_model)
    assert table.shape == (50, d_model)
    assert table.dtype == torch.float32
    for position in (0, 1, 7, 49):
        for i in range(d_model // 2):
            angle = position / 10000 ** (2 * i / d_model)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


@pytest.mark.parametrize("k", [1, 7, 40])
def test_the_encoding_k_positions_later_is_a_linear_function_of_the_encoding(k: int) -> None:
    """§3.5: one matrix for all positions, which turns each pair of sine and cosine by k times its
    frequency."""
    table = sinusoids(100, 16).double()
    turned = torch.zeros(16, 16, dtype=torch.float64)
    for i in range(0, 16, 2):
        sine = math.sin(k / 10000 ** (i / 16))
        cosine = math.cos(k / 10000 ** (i / 16))
        turned[i : i + 2, i : i + 2] = torch.tensor([[cosine, -sine], [sine, cosine]])
    torch.testing.assert_close(table[:-k] @ turned, table[k:], rtol=0, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"attention_window": 5}], ids=str)
def test_a_model_with_sinusoids_reads_and_writes_beyond_its_table(changes: dict[str, Any]) -> None:
    short, long = (small_model(max_positions=size, **changes) for size in (8, 100))
    assert short.state_dict().keys() == long.state_dict().keys()
    source = pieces(3, 60)
    target = pieces(3, 50, seed=1)
    table = short.source_positions.table
    assert torch.equal(short(source, target), long(source, target))
    assert short.source_positions.table is table, "CUDA graphs read it"
    cache = short.start(source)
    expected = long.logits(long(source, target))
    for position in range(50):
        logits = short.step(target[:, position : position + 1], cache)[:, 0]
        torch.testing.assert_close(logits, expected[:, position], rtol=1e-4, atol=1e-4)


def test_sinusoids_beyond_the_table_follow_the_model_to_its_precision() -> None:
    positions = small_model(max_positions=8).source_positions
    assert torch.equal(positions(0, 20), sinusoids(20, 16))
    assert torch.equal(positions(15, 5), sinusoids(20, 16)[15:])
    assert positions.double()(3, 40).dtype == torch.float64


def test_learned_positions_are_two_tables_with_gradients_for_both() -> None:
    model = small_model(positions="learned").train()
    tables = [model.source_positions.table, model.target_positions.table]
    assert tables[0] is not tables[1]
    assert not torch.equal(*tables)
    model(torch.randint(4, 30, (2, 5)), torch.randint(4, 30, (2, 7))).square().sum().backward()
    for table, used in zip(tables, (5, 7), strict=True):
        assert table.shape == (40, 16)
        assert table.grad is not None
        assert (table.grad[:used].abs().sum(1) > 0).all()
        assert (table.grad[used:] == 0).all()


VARIANTS: list[dict[str, Any]] = [
    {},
    {"positions": "learned"},
    {"attention_bias": True, "d_k": 5, "d_v": 3},
    {"attention_score": "dot"},
    {"attention_score": "additive"},
    {"encoder_layer": "recurrent"},
    {"encoder_layer": "convolutional", "kernel": 3, "dilation": 2},
    {"encoder_layer": "separable"},
    {"attention_window": 5},
    {"attention_window": 3, "attention_score": "additive"},
]


def pieces(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(4, 30, shape, generator=torch.Generator().manual_seed(seed))


def padded(rows: list[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def dropouts(training: bool = True, **changes: Any) -> list[tuple[float, tuple[int, ...]]]:
    """The probability and the shape of every active dropout, in the order of the forward pass."""
    model = small_model(**changes).train(training)
    drops = list[tuple[float, tuple[int, ...]]]()
    apply: Any = _CpuDropout.apply

    def noted(x: Tensor, p: float) -> Tensor:
        drops.append((p, tuple(x.shape)))
        output: Tensor = apply(x, p)
        return output

    with patch.object(_CpuDropout, "apply", noted):
        model(pieces(3, 5), pieces(3, 7))
    return drops


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_no_position_sees_a_later_one(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    source = pieces(3, 6)
    target = pieces(3, 8, seed=1)
    old_logits = model(source, target)
    for first in range(8):
        changed_target = target.clone()
        changed_target[:, first:] = (target[:, first:] - 4 + 7) % 26 + 4
        new_logits = model(source, changed_target)
        torch.testing.assert_close(new_logits[:, :first], old_logits[:, :first], rtol=0, atol=1e-6)
        assert (new_logits[:, first:] - old_logits[:, first:]).abs().amax(-1).min() > 1e-4


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_padding_changes_nothing(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    sources = [pieces(n, seed=n) for n in (9, 3, 1)]
    targets = [pieces(m, seed=20 + m) for m in (2, 8, 5)]
    together = model(padded(sources), padded(targets))
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        logits = model(source[None], target[None])
        torch.testing.assert_close(together[row, : len(target)], logits[0], rtol=1e-5, atol=1e-5)


def test_embeddings_are_multiplied_by_the_root_of_the_width_before_positions_are_added() -> None:
    model = small_model()
    inputs = list[Tensor]()
    model.encoder[0].register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    source = pieces(2, 5)
    model(source, source)
    expected = model.embedding[source] * 4.0 + model.source_positions(0, 5)
    torch.testing.assert_close(inputs[0], expected)


N = SMALL.n_layers
H = SMALL.n_heads
F = SMALL.d_ff
PLACES: list[tuple[dict[str, Any], list[Any]]] = [
    ({"p_drop": 0.5}, [(3, 5, 16)] * (1 + 2 * N) + [(3, 7, 16)] * (1 + 3 * N)),
    ({"attention_dropout": 0.5}, [(3, H, 5, 5)] * N + [(3, H, 7, 7), (3, H, 7, 5)] * N),
    ({"relu_dropout": 0.5}, [(3, 5, F)] * N + [(3, 7, F)] * N),
]


@pytest.mark.parametrize(("changes", "places"), PLACES, ids=lambda value: str(value)[:30])
def test_each_dropout_is_at_its_places_in_training_alone(
    changes: dict[str, Any], places: list[tuple[int, ...]]
) -> None:
    assert dropouts(**changes) == [(0.5, shape) for shape in places]
    assert dropouts(training=False, **changes) == []


def glorot(part: Tensor, gain: float = 1) -> None:
    """Assert a uniform draw up to gain·√(6/(fan in + fan out)) of this part alone."""
    bound = gain * math.sqrt(6 / sum(part.shape))
    assert 0.98 * bound < part.abs().max().item() <= bound
    assert part.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_projections_start_glorot_uniform_each_by_its_own_shape_embeddings_normal_biases_zero() -> (
    None
):
    model = small_model(
        vocab_size=2000, d_model=64, d_ff=96, n_heads=4, d_k=12, d_v=24, attention_bias=True
    )
    assert model.embedding.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert model.embedding.abs().max().item() > 3.5 * 64**-0.5  # a uniform draw would end at 1.7
    assert not any(
        weight.any() for name, weight in model.named_parameters() if name.endswith("bias")
    )
    for module in model.modules():
        if isinstance(module, SelfAttention | CrossAttention):
            weights = [weight for weight, _ in module.projections()]
            assert [tuple(weight.shape) for weight in weights] == [(48, 64), (48, 64), (96, 64)]
            for weight in weights:
                glorot(weight, math.sqrt(0.5))
            glorot(module.output.weight)
        if isinstance(module, FeedForward):
            glorot(module.inner.weight)
            glorot(module.outer.weight)


SOURCES = padded([pieces(6), pieces(2, seed=1), pieces(4, seed=2)])
OUTPUTS = torch.cat([torch.full((3, 2, 1), BOS), pieces(3, 2, 9, seed=3)], dim=2)
"""Two outputs [3, 2, 10] of each of the sources."""


def all_logits(model: Transformer) -> Tensor:
    """[3, 2, 10, P] of every position of ``OUTPUTS``, without a cache."""
    output = model(SOURCES.repeat_interleave(2, dim=0), OUTPUTS.flatten(0, 1))
    logits: Tensor = model.logits(output).unflatten(0, (3, 2))
    return logits


def after_three_steps(model: Transformer) -> Cache:
    cache = model.start(SOURCES)
    for position in range(3):
        model.step(OUTPUTS[:, :, position], cache)
    return cache


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_cached_decoding_gives_the_logits_of_the_full_forward_pass(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    full = all_logits(model)
    cache = model.start(SOURCES)
    for position in range(10):
        assert cache.length == position
        torch.testing.assert_close(
            model.step(OUTPUTS[:, :, position], cache), full[:, :, position], rtol=1e-5, atol=1e-5
        )


def test_a_cache_of_selected_sentences_continues_with_any_of_their_outputs() -> None:
    model = small_model()
    full = all_logits(model)
    cache = after_three_steps(model)
    cache.select(torch.tensor([2, 0]), torch.tensor([5, 4, 0, 0]))
    logits = model.step(torch.stack([OUTPUTS[2, [1, 0], 3], OUTPUTS[0, [0, 0], 3]]), cache)
    expected = torch.stack([full[2, [1, 0], 3], full[0, [0, 0], 3]])
    torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-5)
