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
    CrossAttention,
    KeyValue,
    SelfAttention,
    causal_mask,
    padding_mask,
)
from transformer.model.attention_score import AttentionScore
from transformer.model.encoder_decoder import DecoderLayer, EncoderLayer
from transformer.model.on_cpu import ONE_VECTOR, softmax

MODEL = replace(SMALL, d_model=24, n_heads=3, d_k=8, d_v=8, d_ff=40, attention_bias=True)
B = 4
S = 9
T = 7
D = MODEL.d_model


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def randomized(ours: Any, theirs: Any) -> None:
    """Every parameter random, norms and biases too, and the same on both sides."""
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    copy_attention(ours.attention, theirs.self_attn)
    parts = [(ours.feed_forward.inner, theirs.linear1), (ours.feed_forward.outer, theirs.linear2)]
    norms = [ours.attention_residual.norm, ours.feed_forward_residual.norm]
    if isinstance(ours, DecoderLayer):
        copy_attention(ours.cross, theirs.multihead_attn)
        norms.insert(1, ours.cross_residual.norm)
    for mine, reference in [
        *parts,
        *((norm, getattr(theirs, f"norm{i + 1}")) for i, norm in enumerate(norms)),
    ]:
        reference.load_state_dict(mine.state_dict())


@torch.no_grad()
def copy_attention(ours: SelfAttention | CrossAttention, theirs: nn.MultiheadAttention) -> None:
    """Our keys have no bias. torch's key bias is random here: it changes nothing."""
    weights, biases = zip(*ours.projections(), strict=True)
    key_bias = torch.randn(MODEL.n_heads * MODEL.d_k)
    theirs.in_proj_weight.copy_(torch.cat(weights))
    theirs.in_proj_bias.copy_(torch.cat([key_bias if bias is None else bias for bias in biases]))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def padding(length: int) -> Tensor:
    """True where padded; the first sentence has none."""
    return torch.arange(length) >= torch.tensor([length, length - 1, 2, 1])[:, None]


def layers(ours: type, theirs: type) -> tuple[Any, Any]:
    layer = ours(MODEL)
    reference = theirs(
        D, MODEL.n_heads, MODEL.d_ff, dropout=0.0, activation="relu", batch_first=True
    )
    randomized(layer, reference)
    return layer, reference


@pytest.mark.parametrize("padded", [False, True])
def test_encoder_layer_equals_that_of_torch(padded: bool) -> None:
    ours, theirs = layers(EncoderLayer, nn.TransformerEncoderLayer)
    x = torch.randn(B, S, D)
    pad = padding(S) if padded else None
    assert_close(
        ours(x, None if pad is None else padding_mask(pad)), theirs(x, src_key_padding_mask=pad)
    )


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_decoder_layer_equals_that_of_torch(padded: bool, causal: bool) -> None:
    ours, theirs = layers(DecoderLayer, nn.TransformerDecoderLayer)
    x = torch.randn(B, T, D)
    memory = torch.randn(B, S, D)
    pad = padding(S) if padded else None
    source_mask = None if pad is None else padding_mask(pad)
    layer = ours(
        x, ours.cross.memory(memory), source_mask, causal_mask(T, x.device) if causal else None
    )
    mask = nn.Transformer.generate_square_subsequent_mask(T) if causal else None
    assert_close(layer, theirs(x, memory, tgt_mask=mask, memory_key_padding_mask=pad))


def test_attention_with_unequal_key_and_value_widths_equals_the_formula_head_by_head() -> None:
    model = replace(SMALL, d_model=10, n_heads=3, d_k=4, d_v=7)
    attention = SelfAttention(model)
    x = torch.randn(2, 5, 10)
    query, key, value = (x @ part.T for part in attention.qkv.weight.split([12, 12, 21]))
    heads = []
    for h in range(3):
        k = slice(4 * h, 4 * h + 4)
        v = slice(7 * h, 7 * h + 7)
        weights = torch.softmax(query[..., k] @ key[..., k].transpose(1, 2) / 4**0.5, -1)
        heads.append(weights @ value[..., v])
    output, _ = attention(x, None)
    assert_close(output, torch.cat(heads, -1) @ attention.output.weight.T)


def attended(
    attention: Any, mask: Any, d_k: int, d_v: int, precision: torch.dtype, score: AttentionScore
) -> list[Tensor]:
    """The output of a kind of attention, and the gradients of query, key and value."""
    torch.manual_seed(1)
    query, key, value = (
        torch.randn(B, 3, T, width, requires_grad=True) for width in (d_k, d_k, d_v)
    )
    with torch.autocast("cpu", precision, enabled=precision != torch.float32):
        answer = attention(query, KeyValue(key, value), mask, 0.0, score)
    (answer * torch.linspace(-1, 1, answer.numel()).view_as(answer)).sum().backward()
    return [
        part.float()
        for part in (answer.detach(), query.grad, key.grad, value.grad)
        if part is not None
    ]


@pytest.mark.parametrize(
    ("precision", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
@pytest.mark.parametrize(("d_k", "d_v"), [(4, 7), (16, 4)])
@pytest.mark.parametrize("scale", [0.5, 1.0])
@pytest.mark.parametrize("masked", ["not at all", "causal", "padding"])
def test_fused_attention_equals_the_explicit_one(
    masked: str, scale: float, d_k: int, d_v: int, precision: torch.dtype, tolerance: float
) -> None:
    cpu = torch.device("cpu")
    masks: dict[str, Any] = {
        "causal": ("causal", causal_mask(T, cpu)),
        "padding": (padding_mask(padding(T)),) * 2,
    }
    fused_mask, explicit_mask = masks.get(masked, (None, None))
    fused = attended(
        attention_module._fused, fused_mask, d_k, d_v, precision, AttentionScore(scale)
    )
    expected = attended(
        attention_module._explicit, explicit_mask, d_k, d_v, precision, AttentionScore(scale)
    )
    assert len(fused) == 4
    for output, explicit in zip(fused, expected, strict=True):
        assert (output - explicit).norm() <= tolerance * explicit.norm()


def test_fused_attention_drops_out_weights() -> None:
    query = torch.ones(1, 1, 1, 2)
    key = torch.ones(1, 1, 1000, 2)
    output = attention_module._fused(query, KeyValue(key, key), None, 0.5, AttentionScore(1.0))
    assert 0.85 < output[0, 0, 0, 0].item() < 1.15
    assert output[0, 0, 0, 0].item() != 1


@pytest.mark.parametrize("length", [1, ONE_VECTOR - 1, ONE_VECTOR])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_values_and_gradients_are_torchs(length: int, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    logits = (torch.randn(5, 3, 7, length) * 20).to(dtype)
    logits[..., 1:].masked_fill_(torch.rand(5, 3, 7, length - 1) < 0.3, -math.inf)
    ours, theirs = (logits.clone().requires_grad_() for _ in range(2))
    output = softmax(ours)
    expected = torch.softmax(theirs, -1, dtype=torch.float32)
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, expected, rtol=1e-6, atol=1e-7)
    weights = torch.randn_like(output)
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    assert ours.grad is not None
    assert ours.grad.dtype == dtype
    torch.testing.assert_close(ours.grad, theirs.grad)
