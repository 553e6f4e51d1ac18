"""Attention and layers against the formulas and those of torch, given the same weights."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import SMALL
from torch import Tensor, nn

from transformer.model import attention as attention_module
from transformer.model.attention import (
    ONE_VECTOR,
    CrossAttention,
    KeyValue,
    SelfAttention,
    causal_mask,
    padding_mask,
    softmax,
)
from transformer.model.encoder_decoder import DecoderLayer, EncoderLayer

MODEL = replace(SMALL, d_model=24, n_heads=3, d_k=8, d_v=8, d_ff=40, attention_bias=True)
B, S, T, D = 4, 9, 7, MODEL.d_model


def assert_close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def inputs_of(ours: SelfAttention | CrossAttention) -> tuple[Tensor, ...]:
    return (ours.qkv.weight,) if isinstance(ours, SelfAttention) else (ours.query.weight, ours.kv.weight)


def attention_of_ours(ours: SelfAttention | CrossAttention) -> list[Any]:
    """Our parameters in the order of torch's in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias.

    Our keys have no bias. torch's key bias is random here: it changes nothing, and its gradient is zero.
    """
    key_bias = torch.randn(MODEL.n_heads * MODEL.d_k)
    biases = (ours.query_bias, key_bias, ours.value_bias)
    return [inputs_of(ours), biases, ours.output.weight, ours.output.bias]


def attention_of_torch(theirs: nn.MultiheadAttention) -> list[Tensor]:
    return [theirs.in_proj_weight, theirs.in_proj_bias, theirs.out_proj.weight, theirs.out_proj.bias]


def matched(ours: EncoderLayer | DecoderLayer, theirs: Any) -> list[tuple[Any, Tensor]]:
    """Our parameters (several where torch fuses them) and torch's, one by one."""
    feed_forward = [ours.feed_forward.inner, ours.feed_forward.outer]
    norms = [ours.attention_residual.norm]
    pairs = list(zip(attention_of_ours(ours.attention), attention_of_torch(theirs.self_attn), strict=True))
    if isinstance(ours, DecoderLayer):
        pairs += zip(attention_of_ours(ours.cross), attention_of_torch(theirs.multihead_attn), strict=True)
        norms.append(ours.cross_residual.norm)
    norms.append(ours.feed_forward_residual.norm)
    their_norms = [getattr(theirs, f"norm{i + 1}") for i in range(len(norms))]
    for mine, other in zip([*feed_forward, *norms], [theirs.linear1, theirs.linear2, *their_norms], strict=True):
        pairs += [(mine.weight, other.weight), (mine.bias, other.bias)]
    return pairs


def randomized(ours: Any, theirs: Any) -> Any:
    """Every parameter random, norms and biases too, and the same on both sides."""
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
        pairs = matched(ours, theirs)
        for mine, other in pairs:
            other.copy_(torch.cat(mine) if isinstance(mine, tuple) else mine)
    return pairs


def backward(output: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    weights = torch.linspace(-1, 1, output.numel()).view_as(output)
    (output * weights).sum().backward()
    return [x.grad for x in inputs if x.grad is not None]


def assert_equal_to_torchs(
    pairs: Any, mine: Tensor, other: Tensor, my_inputs: list[Tensor], their_inputs: list[Tensor]
) -> None:
    assert_close(mine, other)
    my_gradients, their_gradients = backward(mine, my_inputs), backward(other, their_inputs)
    assert len(my_gradients) == len(my_inputs)
    for found, expected in zip(my_gradients, their_gradients, strict=True):
        assert_close(found, expected)
    for my_parameter, their_parameter in pairs:
        grads = my_parameter if isinstance(my_parameter, tuple) else (my_parameter,)
        found = torch.cat([torch.zeros_like(p) if p.grad is None else p.grad for p in grads])
        assert_close(found, their_parameter.grad)


def inputs(*shapes: tuple[int, ...]) -> tuple[list[Tensor], list[Tensor]]:
    made = [torch.randn(shape) for shape in shapes]
    return [x.clone().requires_grad_() for x in made], [x.clone().requires_grad_() for x in made]


def padding(length: int) -> Tensor:
    """True where padded; the first sentence has none."""
    return torch.arange(length) >= torch.tensor([length, length - 1, 2, 1])[:, None]


def layers(ours: type, theirs: type) -> tuple[Any, Any]:
    other = theirs(D, MODEL.n_heads, MODEL.d_ff, dropout=0.0, activation="relu", batch_first=True, norm_first=False)
    return ours(MODEL), other


@pytest.mark.parametrize("padded", [False, True])
def test_encoder_layer_and_its_gradients_equal_those_of_torch(padded: bool) -> None:
    ours, theirs = layers(EncoderLayer, nn.TransformerEncoderLayer)
    pairs, pad = randomized(ours, theirs), padding(S) if padded else None
    (x,), (y,) = inputs((B, S, D))
    mine = ours(x, None if pad is None else padding_mask(pad))
    assert_equal_to_torchs(pairs, mine, theirs(y, src_key_padding_mask=pad), [x], [y])


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_decoder_layer_and_its_gradients_equal_those_of_torch(padded: bool, causal: bool) -> None:
    ours, theirs = layers(DecoderLayer, nn.TransformerDecoderLayer)
    pairs, pad = randomized(ours, theirs), padding(S) if padded else None
    (x, memory), (y, other_memory) = inputs((B, T, D), (B, S, D))
    mine = ours(
        x,
        ours.cross.memory(memory),
        None if pad is None else padding_mask(pad),
        causal_mask(T, x.device) if causal else None,
    )
    mask = nn.Transformer.generate_square_subsequent_mask(T) if causal else None
    other = theirs(y, other_memory, tgt_mask=mask, memory_key_padding_mask=pad)
    assert_equal_to_torchs(pairs, mine, other, [x, memory], [y, other_memory])


def test_attention_with_unequal_key_and_value_widths_equals_the_formula_head_by_head() -> None:
    model = replace(SMALL, d_model=10, n_heads=3, d_k=4, d_v=7)
    attention, x = SelfAttention(model), torch.randn(2, 5, 10)
    query, key, value = (x @ part.T for part in attention.qkv.weight.split([12, 12, 21]))
    heads = []
    for h in range(3):
        k, v = slice(4 * h, 4 * h + 4), slice(7 * h, 7 * h + 7)
        weights = torch.softmax(query[..., k] @ key[..., k].transpose(1, 2) / 4**0.5, -1)
        heads.append(weights @ value[..., v])
    found, _ = attention(x, None)
    assert_close(found, torch.cat(heads, -1) @ attention.output.weight.T)


def attended(attention: Any, mask: Any, d_k: int, d_v: int, precision: torch.dtype) -> list[Tensor]:
    """The output of a kind of attention, and the gradients of query, key and value."""
    torch.manual_seed(1)
    query, key, value = (torch.randn(B, 3, T, width, requires_grad=True) for width in (d_k, d_k, d_v))
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        answer = attention(query, KeyValue(key, value), mask, 0.0)
    (answer * torch.linspace(-1, 1, answer.numel()).view_as(answer)).sum().backward()
    return [part.float() for part in (answer.detach(), query.grad, key.grad, value.grad) if part is not None]


@pytest.mark.parametrize(("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 7), (16, 4)])
@pytest.mark.parametrize("masked", ["not at all", "causal", "padding"])
def test_fused_attention_equals_the_explicit_one(
    masked: str, d_k: int, d_v: int, precision: torch.dtype, tolerance: float
) -> None:
    cpu = torch.device("cpu")
    masks: dict[str, Any] = {"causal": ("causal", causal_mask(T, cpu)), "padding": (padding_mask(padding(T)),) * 2}
    of_fused, of_explicit = masks.get(masked, (None, None))
    found = attended(attention_module._fused, of_fused, d_k, d_v, precision)
    expected = attended(attention_module._explicit, of_explicit, d_k, d_v, precision)
    assert len(found) == 4
    for mine, other in zip(found, expected, strict=True):
        assert (mine - other).norm() <= tolerance * other.norm()


def test_fused_attention_drops_out_weights() -> None:
    query, key = torch.ones(1, 1, 1, 2), torch.ones(1, 1, 1000, 2)
    found = attention_module._fused(query, KeyValue(key, key), None, 0.5)
    assert 0.85 < found[0, 0, 0, 0].item() < 1.15
    assert found[0, 0, 0, 0].item() != 1


@pytest.mark.parametrize("length", [1, ONE_VECTOR - 1, ONE_VECTOR])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_and_gradients_are_torchs(length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    drawn = (torch.randn(5, 3, 7, length) * 20).to(dtype)
    drawn[..., 1:].masked_fill_(torch.rand(5, 3, 7, length - 1) < 0.3, -math.inf)
    ours, theirs = (drawn.clone().requires_grad_() for _ in range(2))
    found, expected = softmax(ours), torch.softmax(theirs, -1, dtype=torch.float32)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    weights = torch.randn_like(found)
    (found * weights).sum().backward()
    (expected * weights).sum().backward()
    assert ours.grad is not None
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(ours.grad, theirs.grad)
