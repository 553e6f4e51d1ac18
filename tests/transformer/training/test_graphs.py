"""Buckets: few and optimal, each batch in the smallest that holds it; and padding changes no result."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from small_trials import SMALL, random_pairs, random_pieces, share, small_trial

from transformer.data.batches import Shape, TrainingBatches, collate
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.model import attention as attention_module
from transformer.training import loss as loss_module
from transformer.training.graphs import MOST_BUCKETS, buckets, into_bucket, pad_up
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

PAIRS = random_pairs(30, longest=12)


def captions(size: int) -> ParallelSet:
    """Random pieces in sentences as long as image captions: ln source has mean 2.7 and sd 0.3, ln ratio sd 0.17."""
    random = np.random.default_rng(1)
    source = np.exp(random.normal(2.7, 0.3, size))
    sides = source, source * np.exp(random.normal(0, 0.17, size))
    lengths = [np.clip(np.round(side), 4, 60).astype(int).tolist() for side in sides]
    return ParallelSet(random_pieces(lengths[0]), random_pieces(lengths[1], seed=2))


def smallest(shape: Shape, among: list[Shape]) -> Shape:
    return min((b for b in among if all(x <= y for x, y in zip(shape, b, strict=True))), key=lambda b: b.cells)


@pytest.mark.parametrize(
    ("pairs", "budget", "bound"),
    [
        (captions(6000), 400, 0.05),
        (captions(6000), 1000, 0.03),
        (random_pairs(3000, longest=60), 400, 0.12),
        (random_pairs(40, longest=60), 1900, 0.0),
    ],
    ids=["captions", "captions in larger batches", "any length", "a few batches"],
)
def test_every_batch_has_a_bucket_and_few_cells_are_added(pairs: ParallelSet, budget: int, bound: float) -> None:
    batches = TrainingBatches(pairs, budget, 60, seed=1)
    shapes = [share(batches, step).shape for step in range(1, len(batches) + 1)]
    found = buckets(batches.shapes())
    assert len(found) == min(MOST_BUCKETS, len(set(shapes)))
    added = sum(smallest(shape, found).cells for shape in shapes) / sum(shape.cells for shape in shapes) - 1
    assert 0 <= added <= bound


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_other_buckets_of_neighbors_have_fewer_cells(most: int) -> None:
    shapes = TrainingBatches(random_pairs(60), 90, 20, seed=1).shapes()
    assert len(shapes) == 10

    def shared(cuts: tuple[int, ...]) -> list[Shape]:
        """One shape for each batch, the same between two cuts."""
        runs = [shapes[start:end] for start, end in pairwise((0, *cuts, len(shapes)))]
        return [Shape(*map(max, zip(*run, strict=True))) for run in runs for _ in run]

    possible = [shared(cuts) for cuts in combinations(range(1, len(shapes)), most - 1)]
    best = min(possible, key=lambda each: sum(shape.cells for shape in each))
    assert buckets(shapes, most) == sorted(set(best), key=best.index)


def test_a_batch_goes_into_the_smallest_bucket_that_holds_it_and_is_unchanged_if_none_does() -> None:
    batch = collate(PAIRS, np.arange(4))
    sentences, source, target = batch.shape
    larger, wide = Shape(sentences + 2, source + 1, target), Shape(sentences, source + 99, target + 99)
    short = Shape(sentences + 50, source, target - 1)
    assert into_bucket(batch, [wide, larger, short]).shape == larger
    assert into_bucket(batch, [short, wide]).shape == wide
    assert into_bucket(batch, [short]) is batch


def test_a_batch_that_is_padded_up_holds_the_same_sentences() -> None:
    batch = collate(PAIRS, np.arange(4))
    sentences, source, target = batch.shape
    padded = pad_up(batch, Shape(sentences + 2, source + 3, target + 1))
    for mine, other in zip(padded.tensors[:3], batch.tensors[:3], strict=True):
        assert torch.equal(mine[:sentences, : other.shape[1]], other)
        assert (mine[:sentences, other.shape[1] :] == PAD).all()
    assert (padded.target[sentences:] == PAD).all()
    assert (padded.source[:, 0] != PAD).all()
    assert (padded.total_targets, padded.total, padded.lengths) == (batch.total_targets, batch.total, batch.lengths)


@pytest.mark.parametrize("as_on", ["a CPU", "a GPU"])
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (5, 2)])
def test_padding_up_changes_neither_loss_nor_gradient(
    rows: int, columns: int, as_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_on == "a GPU":
        monkeypatch.setattr(loss_module, "_over_real_cells", loss_module._over_all_cells)
        monkeypatch.setattr(attention_module, "_explicit", attention_module._fused)
    batch, trial = collate(PAIRS, np.arange(9)), small_trial(model=SMALL)
    sentences, source, target = batch.shape
    losses, moments = [], []
    for each in (batch, pad_up(batch, Shape(sentences + rows, source + columns, target + columns))):
        state = start(trial, 30, torch.device("cpu"))
        losses.append(train_step(state, [each], trial, Worker(), make_forward_backward(state.model, trial)).loss.item())
        moments.append(torch.cat([state.optimizer.state[p]["exp_avg"].flatten() for p in state.model.parameters()]))
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert (moments[1] - moments[0]).norm() <= 1e-6 * moments[0].norm()
