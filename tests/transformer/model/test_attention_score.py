"""Scores of queries and keys against the formulas of section 3.2.1, and what is reported of
them."""

import math
from collections import defaultdict
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
import torch
from small_trials import random_pairs, small_model
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer.data.batches import collate
from transformer.data.vocabulary import PAD
from transformer.model import attention_score as module
from transformer.model.attention import CrossAttention, SelfAttention
from transformer.model.attention_score import additive_logits
from transformer.training.attention_metrics import SENTENCES, attention_metrics
from transformer.training.worker_group import Worker

B = 3
H = 2
T = 5
S = 7
K = 4


def parts(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and vectors with gradients."""
    torch.manual_seed(1)
    shapes = [(B, H, T, K), (B, H, S, K), (H, K)]
    query, key, vector = (torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes)
    return query, key, vector


def written_out(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    """v·tanh(q + k), with all sums in memory."""
    sums = query[:, :, :, None] + key[:, :, None]
    return (sums.tanh() * vector[:, None, None]).sum(-1)


@pytest.mark.parametrize("queries_per_slice", [1, 2, T, 3 * T, 1000])
def test_additive_logits_and_gradients_are_those_of_the_formula_in_slices_of_any_size(
    queries_per_slice: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = queries_per_slice * S * K * 8
    monkeypatch.setattr(module, "LARGEST_SLICE", limit)
    sizes = list[int]()
    hidden: Any = module._hidden

    def measured(*arguments: Any) -> Tensor:
        result: Tensor = hidden(*arguments)
        sizes.append(result.nbytes)
        return result

    monkeypatch.setattr(module, "_hidden", measured)
    weights = torch.linspace(-1, 1, B * H * T * S, dtype=torch.float64).view(B, H, T, S)
    ours = parts()
    theirs = parts()
    logits = additive_logits(*ours)
    torch.testing.assert_close(logits, written_out(*theirs), rtol=0, atol=1e-12)
    (logits * weights).sum().backward()
    (written_out(*theirs) * weights).sum().backward()
    for part, reference in zip(ours, theirs, strict=True):
        assert part.grad is not None
        # keys and vectors add up their slices in float32 at least
        torch.testing.assert_close(part.grad, reference.grad, rtol=0, atol=1e-12)
    assert max(sizes) <= limit
    assert sum(sizes) == 2 * B * H * T * S * K * 8


class PeakOfTensors(TorchDispatchMode):
    """The most bytes that tensors made within it hold at a time."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._sizes = WeakKeyDictionary[torch.UntypedStorage, int]()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                self._sizes[storage] = storage.nbytes()
        self.peak = max(self.peak, sum(self._sizes.values()))
        return result


def test_forward_and_backward_hold_no_more_than_a_slice_of_the_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heads, queries, keys, width = 8, 128, 128, 64
    limit = 2**20
    monkeypatch.setattr(module, "LARGEST_SLICE", limit)
    query, key = (torch.randn(1, heads, queries, width, requires_grad=True) for _ in range(2))
    vector = torch.randn(heads, width, requires_grad=True)
    with PeakOfTensors() as forward:
        logits = additive_logits(query, key, vector)
    gradient = torch.randn_like(logits)
    with PeakOfTensors() as backward:
        logits.backward(gradient)
    small = 4 * heads * (queries * keys + 6 * queries * width)  # logits, and gradients of the parts
    sums = 4 * heads * queries * keys * width
    assert limit + small < sums / 10
    assert limit / 2 < forward.peak <= limit + small
    assert limit / 2 < backward.peak <= limit + small


def test_additive_logits_in_bfloat16_are_near_those_in_float32() -> None:
    exact = parts(torch.float32)
    rounded = parts(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        logits = additive_logits(rounded[0].bfloat16(), rounded[1].bfloat16(), rounded[2])
    assert logits.dtype == torch.bfloat16
    torch.testing.assert_close(logits.float(), additive_logits(*exact), rtol=0.05, atol=0.05)
    logits.float().square().sum().backward()
    assert rounded[2].grad is not None
    assert rounded[2].grad.dtype == torch.float32


@pytest.mark.parametrize("kind", ["scaled", "dot", "additive"])
def test_attention_with_each_score_equals_the_formula_head_by_head(kind: str) -> None:
    attention = small_model(attention_score=kind).encoder[0].attention
    assert isinstance(attention, SelfAttention)
    x = torch.randn(2, 5, 16)
    query, key, value = (x @ part.T for part in attention.qkv.weight.split([12, 12, 20]))
    heads = []
    for h in range(2):
        q, k = (side[..., 6 * h : 6 * h + 6] for side in (query, key))
        if attention.score_vector is not None:
            logits = (q[:, :, None] + k[:, None]).tanh() @ attention.score_vector[h]
        else:
            logits = q @ k.transpose(1, 2) / (math.sqrt(6) if kind == "scaled" else 1)
        heads.append(logits.softmax(-1) @ value[..., 10 * h : 10 * h + 10])
    expected = torch.cat(heads, -1) @ attention.output.weight.T
    torch.testing.assert_close(attention(x, None)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["scaled", "dot", "additive"])
def test_the_reported_spread_and_entropy_are_means_over_the_real_queries_of_a_place(
    kind: str,
) -> None:
    model = small_model(attention_score=kind)
    pairs = random_pairs(SENTENCES + 9, longest=12)
    spreads = defaultdict[str, list[float]](list)
    entropies = defaultdict[str, list[float]](list)

    def note(side: str, real_lengths: list[int], logits: Tensor, weights: Tensor) -> None:
        """The queries of the sentences, without padding, head by head."""
        for sentence, length in enumerate(real_lengths):
            for row in logits[sentence, :, :length].flatten(0, 1):
                spreads[side].append(float(np.std(row[row > -math.inf].numpy())))
            for row in weights[sentence, :, :length].flatten(0, 1):
                likely = row[row > 0].double()
                entropies[side].append(float(-(likely * likely.log()).sum()))

    batch = collate(pairs, np.arange(SENTENCES))
    lengths = [(side != PAD).sum(1).tolist() for side in (batch.source, batch.target)]
    for name, attention in model.named_modules():
        if isinstance(attention, SelfAttention | CrossAttention):
            attention_side = "cross" if name.endswith("cross") else name.partition(".")[0]
            real = lengths[0] if attention_side == "encoder" else lengths[1]
            attention.observer = partial(note, attention_side, real)
    with torch.no_grad():
        model(batch.source, batch.shifted)
    expected = dict[str, Any]()
    for attention_side in ("encoder", "decoder", "cross"):
        mean_spread = np.mean(spreads[attention_side])
        mean_entropy = np.mean(entropies[attention_side])
        expected[f"attention/{attention_side}_logit_sd"] = pytest.approx(mean_spread, rel=1e-4)
        expected[f"attention/{attention_side}_entropy"] = pytest.approx(mean_entropy, rel=1e-4)
    assert attention_metrics(model, pairs, "fp32", Worker()) == expected
    assert attention_metrics(model, pairs, "fp32", Worker(rank=1, world=2)) == {}
    assert all(attention.observer is None for attention in model.attentions())
