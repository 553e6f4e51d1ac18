"""Batches: the token budget, the epoch, the order, the shares of workers, the content of the
tensors, prefetching."""

import math
from collections import Counter
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pytest
import torch
from small_trials import random_pairs, random_pieces

from transformer.data.batches import (
    EPOCHS_OF_SHAPES,
    Batch,
    TrainingBatches,
    _lengths,
    collate,
    evaluation_batches,
    prefetch,
)
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import BOS, EOS, PAD

PAIRS = random_pairs(300, longest=20)
BUDGET = 100


def training(seed: int = 1, max_positions: int = 20, budget: int = BUDGET) -> TrainingBatches:
    return TrainingBatches(PAIRS, budget, max_positions, seed)


def epoch(batches: TrainingBatches, number: int = 0) -> list[list[int]]:
    first = number * len(batches) + 1
    return [batches.indices(step).tolist() for step in range(first, first + len(batches))]


def without_padding(side: list[int]) -> tuple[int, ...]:
    return tuple(piece for piece in side if piece != PAD)


def rows(batch: Batch) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Source, decoder input and target of each sentence, as padded."""
    parts = [part.tolist() for part in (batch.source, batch.shifted, batch.target)]
    for triple in zip(*parts, strict=True):
        yield tuple(map(without_padding, triple))


def test_pairs_longer_than_the_position_tables_are_dropped_and_counted() -> None:
    longest = np.maximum(PAIRS.source.lengths, PAIRS.target.lengths)
    fitting = np.flatnonzero(longest <= 12).tolist()
    batches = training(max_positions=12)
    assert 0 < len(fitting) < 300
    assert batches.dropped == 300 - len(fitting)
    assert sorted(chain(*epoch(batches))) == fitting
    assert training().dropped == 0


def test_a_step_is_the_same_from_any_start_and_depends_on_seed_and_epoch() -> None:
    sequential = training()
    jumping = training()
    expected = [sequential.indices(step).tolist() for step in range(1, 3 * len(sequential) + 1)]
    steps = list(range(1, len(expected) + 1))
    for step in [*steps[::-7], *steps[::11]]:
        assert jumping.indices(step).tolist() == expected[step - 1]
    orders = [epoch(training()), epoch(training(2)), epoch(training(), 1)]
    contents = {str(list(map(sorted, order))) for order in orders}
    assert len(contents) == 3


def test_the_order_of_an_epoch_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = list[int]()
    shuffled = TrainingBatches._shuffled

    def counted(batches: TrainingBatches, epoch: int) -> list[list[np.ndarray]]:
        epochs.append(epoch)
        return shuffled(batches, epoch)

    monkeypatch.setattr(TrainingBatches, "_shuffled", counted)
    batches = training()
    for step in range(1, 2 * len(batches) + 1):
        batches.indices(step)
    assert epochs == [0, 1]


MIXED = random_pairs(3000, longest=40, seed=3)


def test_pairs_longer_than_the_limit_of_training_are_left_out_and_counted() -> None:
    batches = TrainingBatches(PAIRS, BUDGET, 20, 1, longest=9)
    numbers = {number for step in range(1, len(batches) + 1) for number in batches.indices(step)}
    fitting = set(np.flatnonzero(PAIRS.longest_sides <= 9))
    assert numbers == fitting == set(batches.chosen)
    assert 0 < batches.dropped == len(PAIRS) - len(fitting)
    unlimited = TrainingBatches(PAIRS, BUDGET, 20, 1, longest=99)
    assert unlimited.dropped == TrainingBatches(PAIRS, BUDGET, 20, 1).dropped


@pytest.mark.parametrize(
    ("budget", "blocks"), [(499, 1), (500, 2), (1999, 2), (2000, 2), (4000, 4), (25_000, 8)]
)
def test_a_batch_mixes_blocks_of_different_lengths(budget: int, blocks: int) -> None:
    batches = TrainingBatches(MIXED, budget, 40, seed=1)
    sizes = [len(batches.blocks(step)) for step in range(1, len(batches) + 1)]
    assert max(sizes) == blocks
    assert min(sizes) >= blocks - 1
    assert len(batches) == math.ceil(sum(sizes) / blocks)
    for number in (0, 2):
        assert sorted(chain(*epoch(batches, number))) == list(range(3000))
        pieces = [MIXED.target.lengths[indices].sum() for indices in epoch(batches, number)]
        # no batch is a remainder
        assert min(pieces) > (0.35 if blocks == 2 else 0.5) * np.mean(pieces)
    for step in range(1, len(batches) + 1):
        micro_batches = batches.micro_batches(step, 0, 1, tokens_per_micro_batch=25_000)
        assert (
            sum(len(p.source) * max(p.source.shape[1], p.target.shape[1]) for p in micro_batches)
            <= budget
        )
    lengths = [MIXED.longest_sides[block].max() for block in batches.blocks(1)]
    assert len(set(lengths)) > blocks // 2


@pytest.mark.parametrize("world", [1, 3, 4])
def test_micro_batches_of_all_workers_make_up_the_batch_and_hold_its_totals(world: int) -> None:
    batches = TrainingBatches(MIXED, 4000, 40, seed=1)
    shares = [
        batches.micro_batches(1, rank, world, tokens_per_micro_batch=700) for rank in range(world)
    ]
    row_counts = Counter(row for share in shares for batch in share for row in rows(batch))
    assert row_counts == Counter(rows(collate(MIXED, batches.indices(1))))
    totals = _lengths(MIXED, batches.indices(1))
    assert {batch.lengths for share in shares for batch in share} == {totals}
    assert {batch.total_targets for share in shares for batch in share} == {int(totals.target)}
    assert all(max(b.source.numel(), b.target.numel()) <= 700 for share in shares for b in share)
    counts = set()
    for share in shares:
        counts.add(sum(len(micro_batch.source) > 0 for micro_batch in share))
    assert len(counts) <= 2


@pytest.mark.parametrize("world", [1, 2, 3])
def test_joined_blocks_are_the_same_batch_in_one_micro_batch(world: int) -> None:
    batches = TrainingBatches(MIXED, 4000, 40, seed=1)
    joined = batches.joined()
    shares = [
        joined.micro_batches(1, rank, world, tokens_per_micro_batch=25_000) for rank in range(world)
    ]
    assert [len(share) for share in shares] == [1] * world
    assert Counter(row for (batch,) in shares for row in rows(batch)) == Counter(
        rows(collate(MIXED, batches.indices(1)))
    )
    assert {batch.lengths for (batch,) in shares} == {_lengths(MIXED, batches.indices(1))}
    assert [
        len(share) for share in (batches.micro_batches(1, 0, 1, 25_000), batches.blocks(1))
    ] == [4, 4]


def test_shapes_of_joined_blocks_are_those_of_the_first_epochs() -> None:
    batches = TrainingBatches(MIXED, 4000, 40, seed=1).joined()
    steps = range(1, EPOCHS_OF_SHAPES * len(batches) + 1)
    shape_counts = Counter(batches.micro_batches(step, 0, 1, 25_000)[0].shape for step in steps)
    assert shape_counts == Counter(batches.shapes())
    longest = [shape.longest for shape in batches.shapes()]
    assert longest == sorted(longest)


def test_the_decoder_reads_the_target_one_piece_late() -> None:
    pairs = ParallelSet(random_pieces([3, 6, 2]), random_pieces([5, 2, 1], seed=2))
    batch = collate(pairs, np.array([0, 1, 2]))
    for i in range(3):
        source = pairs.source[i].tolist()
        target = pairs.target[i].tolist()
        assert target[-1] == source[-1] == EOS
        assert batch.source[i].tolist() == source + [PAD] * (6 - len(source))
        assert batch.target[i].tolist() == target + [PAD] * (5 - len(target))
        assert batch.shifted[i].tolist() == [BOS, *target[:-1]] + [PAD] * (5 - len(target))
    assert batch.source.dtype == batch.shifted.dtype == batch.target.dtype == torch.int64


@pytest.mark.parametrize("world", [1, 3])
def test_evaluating_covers_each_sentence_once_over_all_workers(world: int) -> None:
    numbers: list[int] = []
    for rank in range(world):
        for indices, batch in evaluation_batches(PAIRS, BUDGET, rank, world):
            numbers += indices.tolist()
            assert max(batch.source.numel(), batch.target.numel()) <= BUDGET
            expected = [
                (tuple(PAIRS.source[i].tolist()), tuple(PAIRS.target[i].tolist())) for i in indices
            ]
            assert [(source, target) for source, _, target in rows(batch)] == expected
    assert sorted(numbers) == list(range(300))


def test_every_item_comes_once_and_in_order_and_an_error_at_its_step() -> None:
    for steps in (range(3, 40), range(2), range(0)):
        assert list(prefetch(lambda step: step * step, steps)) == [step * step for step in steps]
    items = prefetch(lambda step: 1 / (step - 3), range(9))
    assert [next(items) for _ in range(3)] == [1 / -3, 1 / -2, -1.0]
    with pytest.raises(ZeroDivisionError):
        next(items)
