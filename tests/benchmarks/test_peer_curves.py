"""Curves of base and a peer: both are evaluated as a trial is, and only their steps are timed."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from benchmarks.epoch import EpochSize, epoch
from benchmarks.peer_curves import (
    NAME,
    Learner,
    curves,
    figure,
    lines_on_disk,
    our_learner,
    summary,
)
from benchmarks.peers import PeerTraining, marian_with_explicit_attention
from benchmarks.record import Result, write
from benchmarks.workloads import drawn_pairs
from transformer.config import TrialConfig
from transformer.data.batches import TrainingBatches, evaluation_batches
from transformer.data.prepared import ParallelSet
from transformer.data.vocabulary import PAD
from transformer.training.loss import perplexity
from transformer.training.state import start
from transformer.training.train import DEV_NLL, dev_metrics, make_forward_backward, train_step
from transformer.training.worker_group import Worker

PIECES = 8000
STEPS = 4
TOY = EpochSize("toy", ("scale=tiny", "model.max_positions=64", "train.precision=fp32"))


@pytest.fixture(scope="module")
def text() -> ParallelSet:
    return drawn_pairs(500)


@pytest.fixture(scope="module")
def trial(text: ParallelSet) -> TrialConfig:
    trial = epoch(TOY, text, PIECES).trial
    return replace(trial, train=replace(trial.train, steps=STEPS, evaluate_every=2))


@pytest.fixture(scope="module")
def learners(trial: TrialConfig, text: ParallelSet) -> list[Learner]:
    return curves(trial, PIECES, text, text)


def test_our_curve_is_that_of_a_trial(
    trial: TrialConfig, text: ParallelSet, learners: list[Learner]
) -> None:
    worker = Worker()
    state = start(trial, PIECES, worker.device)
    state.model.train()
    forward_backward = make_forward_backward(state.model, trial)
    train = trial.train
    batches = TrainingBatches(text, train.tokens_per_batch, trial.model.max_positions, train.seed)
    for step in range(1, STEPS + 1):
        blocks = batches.micro_batches(step, 0, 1, 25_000)
        train_step(state, blocks, trial, worker, forward_backward)
    nll = dev_metrics(state.model, text, trial, worker)[DEV_NLL]
    ours = learners[0].curve[-1]
    assert ours["step"] == STEPS
    assert ours["ppl"] == pytest.approx(perplexity(float(nll)), rel=3e-4)


def test_the_peers_curve_has_neither_smoothing_nor_dropout(
    trial: TrialConfig, text: ParallelSet, learners: list[Learner]
) -> None:
    training = PeerTraining(marian_with_explicit_attention, trial, PIECES, fused=True)
    train = trial.train
    batches = TrainingBatches(text, train.tokens_per_batch, trial.model.max_positions, train.seed)
    for step in range(1, STEPS + 1):
        training.step_on_blocks(batches.micro_batches(step, 0, 1, 25_000), "fp32")
    training.model.eval()
    nats = 0.0
    pieces = 0
    for _, batch in evaluation_batches(text, train.tokens_per_batch):
        with torch.no_grad():
            logits = training.model(batch.source, batch.shifted).double()
        gold = batch.target.flatten()
        nats += float(
            F.cross_entropy(logits.flatten(0, 1), gold, ignore_index=PAD, reduction="sum")
        )
        pieces += int((gold != PAD).sum())
    assert learners[1].curve[-1]["ppl"] == pytest.approx(perplexity(nats / pieces), rel=3e-4)


def test_only_steps_are_timed(trial: TrialConfig, text: ParallelSet) -> None:
    learner = our_learner(trial, PIECES)
    dev_batches = [batch for _, batch in evaluation_batches(text, 500)]
    learner.evaluate(0, dev_batches)
    assert learner.cpu_seconds == 0
    blocks = TrainingBatches(text, 500, trial.model.max_positions, 1).micro_batches(1, 0, 1, 25_000)
    learner.step(blocks)
    after_step = learner.cpu_seconds
    learner.evaluate(1, dev_batches)
    assert learner.cpu_seconds == after_step > 0


def test_table_and_figure_have_every_seed(learners: list[Learner]) -> None:
    lines = []
    for seed in (1, 2):
        for learner in learners:
            lines += [
                {"program": learner.program, "seed": seed, **point} for point in learner.curve
            ]
    assert [row[:2] for row in summary(lines).rows] == [
        ("allelse", "1"),
        ("allelse", "2"),
        ("HF Marian", "1"),
        ("HF Marian", "2"),
    ]
    svg = figure(lines).svg_with_text().decode()
    assert "mean of 2 seeds" in svg


def test_a_figure_has_the_newest_run_of_each_seed_of_its_own_command(tmp_path: Path) -> None:
    def run(date: str, seed: int, options: str, step: int) -> Result:
        result: Result = {
            "date": date,
            "commit": "a" * 40,
            "command": f"python -m benchmarks.peer_curves{options} --seed {seed}",
            "lines": [{"seed": seed, "step": step}],
        }
        write(NAME, "", result, [f"seed{seed}"], tmp_path)
        return result

    run("2030-01-01", 1, "", 10)
    run("2030-01-02", 1, "", 20)
    for seed in (1, 2, 3):
        run("2030-01-03", seed, " --steps 2", 2)
    run("2030-01-03", 2, "", 30)
    latest = run("2030-01-03", 3, "", 40)
    steps = [line["step"] for line in lines_on_disk(tmp_path, latest)]
    assert steps == [20, 30, 40]


def test_a_result_replaces_none_of_another_command(tmp_path: Path) -> None:
    result: Result = {"date": "2030-01-01", "commit": "a" * 40, "command": "long"}
    paths = [
        write("x", "", result | {"command": command}, [], tmp_path)
        for command in ("long", "short", "long")
    ]
    assert [path.stem for path in paths] == [
        "x-2030-01-01-aaaaaaa",
        "x-2030-01-01-aaaaaaa-run2",
        "x-2030-01-01-aaaaaaa",
    ]
