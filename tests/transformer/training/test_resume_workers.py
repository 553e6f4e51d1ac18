"""A run started by one worker and resumed by two continues with the same sentences in the same order."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_trials import free_address, random_pairs, small_trial
from toy_trial import ToyTrial

from sweeps.task import Saved
from transformer.data.batches import Batch, TrainingBatches
from transformer.training.state import start
from transformer.training.train import fit
from transformer.training.worker_group import Worker

PAIRS, DEV = random_pairs(80, longest=12), random_pairs(15, longest=12, seed=5)
TRIAL = small_trial(steps=30, log_every=1, evaluate_every=10, checkpoint_every=10, keep_checkpoints=9)
"""Without dropout, which each worker draws separately; three epochs."""
LAST_BEFORE = 10

Sentences = dict[int, list[tuple[int, ...]]]
Reports = dict[int, dict[str, float]]


class Watched(TrainingBatches):
    """Records the sentences of this worker at each step."""

    def __init__(self) -> None:
        super().__init__(PAIRS, TRIAL.train.tokens_per_batch, TRIAL.model.max_positions, TRIAL.train.seed)
        self.given: Sentences = {}

    def micro_batches(self, step: int, rank: int, world: int, tokens_per_micro_batch: int) -> list[Batch]:
        micro_batches = super().micro_batches(step, rank, world, tokens_per_micro_batch)
        self.given[step] = [_pair(batch, row) for batch in micro_batches for row in range(len(batch.target))]
        return micro_batches


def _pair(batch: Batch, row: int) -> tuple[int, ...]:
    """The pieces of one pair without its padding."""
    pieces = torch.cat([batch.source[row], batch.target[row]])
    return tuple(pieces[pieces != 0].tolist())


def train(trial: ToyTrial, worker: Worker) -> Sentences:
    """One attempt; the sentences of this worker."""
    batches, state = Watched(), start(TRIAL, 30, worker.device)
    if trial.saved:
        state.load(trial.saved)
    fit(state, trial, batches, DEV, worker)
    return batches.given


def be_one_of_two(rank: int, folder: Path, saved: Saved, address: str) -> None:
    torch.set_num_threads(1)
    trial = ToyTrial(TRIAL, Path(), rank, 2, address, copy.deepcopy(saved))  # both processes see the same memory
    with trial.process_group():
        sentences = train(trial, Worker(rank, 2, tokens_per_micro_batch=1000))
    torch.save((sentences, trial.reports), folder / f"found-{rank}.pt")


@pytest.fixture(scope="module")
def whole() -> ToyTrial:
    return ToyTrial(TRIAL)


@pytest.fixture(scope="module")
def alone(whole: ToyTrial) -> Sentences:
    """An uninterrupted run of one worker."""
    return train(whole, Worker())


@pytest.fixture(scope="module")
def resumed(
    alone: Sentences, whole: ToyTrial, tmp_path_factory: pytest.TempPathFactory, as_two_workers: Callable[..., None]
) -> list[tuple[Sentences, Reports]]:
    """The sentences and reports of each of two workers that go on from a checkpoint of a single one."""
    folder = tmp_path_factory.mktemp("resumed")
    as_two_workers(be_one_of_two, folder, whole.checkpoints[LAST_BEFORE], free_address())
    return [torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in (0, 1)]


def test_two_workers_together_get_the_sentences_of_one_at_each_step(
    alone: Sentences, resumed: list[tuple[Sentences, Reports]]
) -> None:
    (first, _), (second, _) = resumed
    assert list(first) == list(second) == list(range(LAST_BEFORE + 1, 31))
    for step in first:
        assert sorted(first[step] + second[step]) == sorted(alone[step]), step
    assert any(first.values())
    assert any(second.values())


def test_the_run_finishes_with_the_losses_and_scores_of_one_worker(
    whole: ToyTrial, resumed: list[tuple[Sentences, Reports]]
) -> None:
    (_, reports), _ = resumed
    assert list(reports) == list(range(LAST_BEFORE + 1, 31))
    for step, metrics in reports.items():
        expected = whole.reports[step]
        for name in {"train/loss", "train/learning_rate", "dev/nll"} & set(expected):
            assert metrics[name] == pytest.approx(expected[name], rel=1e-4), (step, name)
