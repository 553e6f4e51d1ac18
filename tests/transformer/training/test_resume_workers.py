"""A run started by one worker and resumed by two continues with the same sentences in the same order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from reports_only import reports_of
from small_trials import KEY, free_address, random_pairs, small_trial

from transformer.data.batches import Batch, TrainingBatches
from transformer.messages import Report
from transformer.training.checkpoint import Checkpoints
from transformer.training.parallel import Worker, join
from transformer.training.resume import resume
from transformer.training.train import fit, start

PAIRS, DEV = random_pairs(80, longest=12), random_pairs(15, longest=12, seed=5)
TRIAL = small_trial(steps=30, log_every=1, evaluate_every=10, checkpoint_every=10, keep_checkpoints=9)
"""Without dropout, which each worker draws separately; three epochs."""
LAST_BEFORE = 10

Sentences = dict[int, list[tuple[int, ...]]]


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


def train(folder: Path, attempt: int, worker: Worker, until: int | None = None) -> tuple[Sentences, list[Report]]:
    """One attempt, from the newest checkpoint of earlier ones to the end or to the report of step ``until``."""
    batches, state = Watched(), start(TRIAL, 30, worker.device)
    checkpoints = Checkpoints(str(folder), KEY, attempt, TRIAL.train.keep_checkpoints)
    resume(state, TRIAL.train.steps, checkpoints, worker)
    reports: list[Report] = []
    for report in reports_of(fit(state, TRIAL, batches, DEV, checkpoints, worker)):
        reports.append(report)
        if report.step == until:
            break
    checkpoints.wait()
    return batches.given, reports


def be_one_of_two(rank: int, folder: Path, address: str) -> None:
    with join(rank, 2, address, threads=1, tokens_per_micro_batch=1000) as worker:
        torch.save(train(folder, 2, worker), folder / f"found-{rank}.pt")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sentences, list[Report]]:
    """An uninterrupted run of one worker."""
    return train(tmp_path_factory.mktemp("alone"), 1, Worker())


@pytest.fixture(scope="module")
def resumed(
    tmp_path_factory: pytest.TempPathFactory, as_two_workers: Callable[..., None]
) -> list[tuple[Sentences, list[Report]]]:
    """The sentences and reports of each of two workers, after a single worker had trained and died."""
    folder = tmp_path_factory.mktemp("resumed")
    train(folder, 1, Worker(), until=LAST_BEFORE + 3)
    as_two_workers(be_one_of_two, folder, free_address())
    found: list[Any] = [torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in (0, 1)]
    return found


def test_two_workers_together_get_the_sentences_of_one_at_each_step(
    alone: tuple[Sentences, list[Report]], resumed: list[tuple[Sentences, list[Report]]]
) -> None:
    (first, _), (second, _) = resumed
    assert list(first) == list(second) == list(range(LAST_BEFORE + 1, 31))
    for step in first:
        assert sorted(first[step] + second[step]) == sorted(alone[0][step]), step
    assert any(first.values())
    assert any(second.values())


def test_the_run_finishes_with_the_losses_and_scores_of_one_worker(
    alone: tuple[Sentences, list[Report]], resumed: list[tuple[Sentences, list[Report]]]
) -> None:
    (_, reports), (_, silent) = resumed
    assert silent == []
    expected = {report.step: report.metrics for report in alone[1]}
    assert [report.step for report in reports] == list(range(LAST_BEFORE + 1, 31))
    for report in reports:
        for name in {"train/loss", "train/learning_rate", "dev/nll"} & set(expected[report.step]):
            assert report.metrics[name] == pytest.approx(expected[report.step][name], rel=1e-4), (report.step, name)
