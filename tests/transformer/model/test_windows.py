"""Restricted attention: its chunks are masked full attention, without NaN, and no more is kept."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_trials import SMALL, random_pairs, small_model, small_trial
from torch import Tensor
from toy_trial import ToyTrial

from transformer.data.batches import TrainingBatches, collate
from transformer.data.vocabulary import EOS, PAD
from transformer.model import attention as attention_module
from transformer.model.attention import KeyValue, SelfAttention, padding_mask
from transformer.training.loss import summed_loss
from transformer.training.state import start
from transformer.training.train import fit
from transformer.training.worker_group import Worker
from transformer.window import SMALLEST_CHUNK, Window

LENGTHS = [1, 2, 15, 16, 17, 40, 100]
RADII = [0, 1, 3, 15, 16, 20, 39, 200]


def legal(window: Window, query: int, key: int) -> bool:
    """The definition: |i − j| ≤ radius; causal: i − radius ≤ j ≤ i."""
    if window.causal:
        return query - window.radius <= key <= query
    return abs(query - key) <= window.radius


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("radius", RADII)
def test_chunks_hold_each_legal_pair_and_few_others(radius: int, causal: bool) -> None:
    window = Window(radius, causal)
    for length in LENGTHS:
        chunks = list(window.chunks(length))
        queries = [query for chunk in chunks for query in range(length)[chunk.queries]]
        assert queries == list(range(length))
        for chunk in chunks:
            keys = set(range(length)[chunk.keys])
            for query in range(length)[chunk.queries]:
                assert {key for key in range(length) if legal(window, query, key)} <= keys
        cells = sum(
            len(range(length)[chunk.queries]) * len(range(length)[chunk.keys]) for chunk in chunks
        )
        assert window.cells(length) == cells <= length * (3 * max(radius, SMALLEST_CHUNK))


def test_cells_between_two_lengths_are_in_proportion() -> None:
    window = Window(3, causal=False)
    expected = 0.75 * window.cells(20) + 0.25 * window.cells(21)
    assert window.cells(20.25) == pytest.approx(expected)


def masked_in_full(attention: SelfAttention, x: Tensor, pad: Tensor, causal: bool) -> Tensor:
    """The same layer with one mask [B, 1, T, T] over all positions."""
    radius = attention.window.radius if attention.window else 0
    window = Window(radius, causal)
    length = x.shape[1]
    outside = torch.tensor(
        [[not legal(window, i, j) for j in range(length)] for i in range(length)]
    )
    illegal = outside | pad[:, None, None]
    illegal = illegal & ~torch.eye(length, dtype=torch.bool)
    mask = torch.zeros(illegal.shape).masked_fill(illegal, -math.inf)
    query, key, value = attention.qkv(x).split(attention.widths, dim=-1)
    return attention.read(query, attention.key_value(key, value), mask)


@pytest.mark.parametrize("score", ["scaled", "additive"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [1, 5, 33, 59])
def test_chunks_equal_masked_full_attention_forward_and_gradients(
    window: int, causal: bool, score: Any
) -> None:
    length = 45
    model = replace(SMALL, attention_window=window, attention_score=score, attention_bias=True)
    attention = SelfAttention(model, causal)
    for parameter in attention.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    pad = torch.arange(length) >= torch.tensor([45, 30, 1])[:, None]
    inputs = [torch.randn(3, length, 16).requires_grad_()]
    inputs.append(inputs[0].detach().clone().requires_grad_())
    chunked, memory = attention(inputs[0], None if causal else padding_mask(pad))
    expected = masked_in_full(attention, inputs[1], pad & torch.tensor(not causal), causal)
    torch.testing.assert_close(chunked, expected, rtol=1e-5, atol=1e-5)
    assert memory.key_BHSK.shape[2] == length
    gradients: list[list[Tensor]] = []
    for output, x in ((chunked, inputs[0]), (expected, inputs[1])):
        attention.zero_grad()
        (output * torch.linspace(-1, 1, output.numel()).view_as(output)).sum().backward()
        weights = [
            weight.grad.clone() for weight in attention.parameters() if weight.grad is not None
        ]
        assert x.grad is not None
        gradients.append([x.grad, *weights])
    for mine, theirs in zip(*gradients, strict=True):
        assert (mine - theirs).norm() <= 1e-5 * theirs.norm()


@pytest.mark.parametrize("window", [1, 3, 7])
def test_a_query_with_only_padding_in_its_window_gives_no_nan(window: int) -> None:
    model = small_model(attention_window=window, max_positions=60).train()
    source = torch.full((3, 50), PAD)
    source[0] = 5
    source[1, :2] = 7
    source[2, 0] = EOS
    target = source.clone()
    loss = summed_loss(model, model(source, target), target, 0.1)
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name


@pytest.mark.parametrize("window", [1, 5, 41])
def test_a_sentence_is_encoded_alike_alone_and_in_a_padded_batch(window: int) -> None:
    model = small_model(attention_window=window, max_positions=60).double()
    sentences = [torch.randint(4, 30, (length,)) for length in (50, 1, 20, 33)]
    source = torch.nn.utils.rnn.pad_sequence(sentences, batch_first=True, padding_value=PAD)
    batch = model._encode(source, model._source_mask(source))
    for row, pieces in enumerate(sentences):
        expected = model._encode(pieces[None], None)[0]
        torch.testing.assert_close(batch[row, : len(pieces)], expected, rtol=0, atol=1e-6)


def test_the_first_40_losses_of_a_window_of_twice_the_length_are_those_of_base() -> None:
    pairs = random_pairs(80, longest=20)
    dev = random_pairs(15, longest=20, seed=5)
    losses: list[list[float]] = []
    for window in (None, 41, 11):
        model = replace(SMALL, attention_window=window, p_drop=0.1, attention_dropout=0.1)
        config = small_trial(model=model, steps=40, log_every=1, evaluate_every=40)
        trial = ToyTrial(config)
        train = config.train
        batches = TrainingBatches(
            pairs, train.tokens_per_batch, 40, 1, None, model.attention_radius
        )
        fit(start(config, 30, torch.device("cpu")), trial, batches, dev, Worker())
        losses.append([metrics["train/loss"] for metrics in trial.reports.values()])
    assert len(losses[0]) == 40
    assert losses[0] == losses[1] != losses[2]


def test_a_layer_computes_only_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = list[tuple[int, int]]()
    attend: Any = attention_module.attend

    def noted(query: Tensor, memory: KeyValue, *arguments: Any) -> Tensor:
        shapes.append((query.shape[2], memory.key_BHSK.shape[2]))
        attended: Tensor = attend(query, memory, *arguments)
        return attended

    monkeypatch.setattr(attention_module, "attend", noted)
    for causal in (False, True):
        shapes.clear()
        layer = SelfAttention(replace(SMALL, attention_window=9), causal)
        layer(torch.randn(2, 100, 16), None)
        assert sum(queries * keys for queries, keys in shapes) == Window(4, causal).cells(100)


@torch.no_grad()
@pytest.mark.parametrize("window", [1, 5])
def test_the_cache_of_the_search_keeps_no_more_than_the_window(window: int) -> None:
    model = small_model(attention_window=window)
    cache = model.start(torch.randint(4, 30, (2, 6)))
    for step in range(30):
        model.step(torch.randint(4, 30, (2, 3)), cache)
        for past in cache.target:
            assert past is not None
            assert past.key_BHSK.shape[2] == min(step + 1, (window + 1) // 2)
            assert past.value_BHSV.shape[2] == past.key_BHSK.shape[2]


def test_batches_count_the_cells_of_each_sentence() -> None:
    pairs = random_pairs(200, longest=39)
    batches = TrainingBatches(pairs, 900, 40, seed=1, radius=2)
    (first, *_) = batches.micro_batches(1, 0, 1, 25_000)
    numbers = batches.indices(1)
    for causal, side, n_cells in (
        (False, pairs.source, first.lengths.source_windows),
        (True, pairs.target, first.lengths.target_windows),
    ):
        cells = Window(2, causal).cells
        assert n_cells == sum(cells(int(length)) for length in side.lengths[numbers])
    assert collate(pairs, np.arange(3)).lengths.source_windows == 0


def test_a_checkpoint_of_an_earlier_version_counts_no_windows() -> None:
    config = small_trial()
    trial = ToyTrial(config)
    batches = TrainingBatches(random_pairs(80, longest=12), 120, 40, 1)
    fit(start(config, 30, torch.device("cpu")), trial, batches, random_pairs(15), Worker())
    saved = trial.checkpoints[10]
    for name in ("sentences", "source_windows", "target_windows"):
        del saved.state["lengths"][name]
    state = start(config, 30, torch.device("cpu"))
    state.load(saved)
    assert state.lengths.source > 0
    assert state.lengths.sentences == state.lengths.source_windows == 0


@pytest.mark.parametrize(("window", "nearest"), [(2, 3), (10, 11)])
def test_an_even_window_is_refused(window: int, nearest: int) -> None:
    (problem,) = small_trial(model=replace(SMALL, attention_window=window)).problems()
    allowed = "must be odd or null: as many positions before as after its own"
    expected = f"model.attention_window: is {window}; {allowed}. Did you mean {nearest}?"
    assert str(problem) == expected
