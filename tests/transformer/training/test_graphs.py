"""Buckets: few and optimal, each batch in the smallest that holds it; and padding changes no
result."""

from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from small_trials import SMALL, random_pairs, small_trial

from transformer.data.batches import Shape, TrainingBatches, collate
from transformer.model import attention as attention_module
from transformer.training import loss as loss_module
from transformer.training.graphs import buckets, into_bucket, pad_up
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

PAIRS = random_pairs(30, longest=12)


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_no_other_buckets_of_neighbors_have_fewer_cells(most: int) -> None:
    shapes = TrainingBatches(random_pairs(60), 90, 20, seed=1).shapes()
    assert len(shapes) == 10

    def shared(cuts: tuple[int, ...]) -> list[Shape]:
        """One shape for each batch, the same between two cuts."""
        runs = [shapes[start:end] for start, end in pairwise((0, *cuts, len(shapes)))]
        return [Shape(*map(max, zip(*run, strict=True))) for run in runs for _ in run]

    possible = [shared(cuts) for cuts in combinations(range(1, len(shapes)), most - 1)]
    best = min(possible, key=lambda buckets: sum(shape.cells for shape in buckets))
    assert buckets(shapes, most) == sorted(set(best), key=best.index)


def test_a_batch_goes_into_the_smallest_bucket_that_holds_it_and_is_unchanged_if_none_does() -> (
    None
):
    batch = collate(PAIRS, np.arange(4))
    sentences, source, target = batch.shape
    larger = Shape(sentences + 2, source + 1, target)
    wide = Shape(sentences, source + 99, target + 99)
    short = Shape(sentences + 50, source, target - 1)
    assert into_bucket(batch, [wide, larger, short]).shape == larger
    assert into_bucket(batch, [short, wide]).shape == wide
    assert into_bucket(batch, [short]) is batch


@pytest.mark.parametrize("as_on", ["a CPU", "a GPU"])
@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (3, 0), (5, 2)])
def test_padding_up_changes_neither_loss_nor_gradient(
    rows: int, columns: int, as_on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if as_on == "a GPU":
        monkeypatch.setattr(loss_module, "_over_real_cells", loss_module._over_all_cells)
        fused = attention_module._fused
        monkeypatch.setattr(attention_module, "_explicit", lambda *call: fused(*call[:5]))
    batch = collate(PAIRS, np.arange(9))
    trial = small_trial(model=SMALL)
    sentences, source, target = batch.shape
    losses = []
    moments = []
    for variant in (
        batch,
        pad_up(batch, Shape(sentences + rows, source + columns, target + columns)),
    ):
        state = start(trial, 30, torch.device("cpu"))
        losses.append(
            train_step(
                state, [variant], trial, Worker(), make_forward_backward(state.model, trial)
            ).loss.item()
        )
        moments.append(
            torch.cat(
                [state.optimizer.state[p]["exp_avg"].flatten() for p in state.model.parameters()]
            )
        )
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert (moments[1] - moments[0]).norm() <= 1e-6 * moments[0].norm()
