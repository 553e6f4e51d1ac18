"""Tests that need a GPU: its steps match a CPU's, never make the host wait, and stay the same in
replay."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import SMALL, random_pairs, share, small_trial
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.data.batches import Batch, TrainingBatches
from transformer.model.substitutes import Recurrence
from transformer.training.graphs import buckets, into_bucket
from transformer.training.meter import Step
from transformer.training.precision import autocast, efficient
from transformer.training.state import TrainState, start
from transformer.training.train import fit, make_forward_backward, plan_graphs, train_step
from transformer.training.worker_group import Worker

pytestmark = pytest.mark.gpu

PAIRS = random_pairs(80, longest=12)
DEV = random_pairs(15, longest=12, seed=5)
DROPPED_OUT = replace(SMALL, d_k=8, d_v=16, p_drop=0.2, attention_dropout=0.1, relu_dropout=0.1)
CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
STEPS = range(1, 13)
VARIANTS: list[dict[str, Any]] = [
    {"attention_score": "dot"},
    {"attention_score": "additive"},
    {"attention_window": 3},
    {"encoder_layer": "recurrent"},
    {"encoder_layer": "convolutional", "kernel": 3, "dilation": 2},
    {"encoder_layer": "separable"},
]


def batches(trial: TrialConfig) -> TrainingBatches:
    return TrainingBatches(
        PAIRS, trial.train.tokens_per_batch, trial.model.max_positions, trial.train.seed
    )


def trained(
    trial: TrialConfig, device: torch.device, replayed: bool = False
) -> tuple[TrainState, list[Step]]:
    """All steps, of two micro-batches each, over few buckets, so that each bucket occurs often."""
    source = batches(trial)
    shapes = buckets(source.shapes(), most=3)
    state = start(trial, 30, device)
    state.model.train()
    run = make_forward_backward(state.model, trial, shapes if replayed else [])
    bucketed: list[Batch] = [into_bucket(share(source, step), shapes).to(device) for step in STEPS]
    worker = Worker(device=device)
    return state, [
        train_step(state, list(pair), trial, worker, run)
        for pair in zip(bucketed, bucketed[::-1], strict=True)
    ]


def weights(state: TrainState) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten().cpu() for parameter in state.model.parameters()])


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("changes", [{}, {"attention_bias": True}, *VARIANTS], ids=str)
def test_a_gpu_takes_the_steps_of_a_cpu(replayed: bool, changes: dict[str, Any]) -> None:
    trial = small_trial(model=replace(SMALL, d_k=8, d_v=16, **changes), warmup_steps=100)
    expected, cpu_steps = trained(trial, CPU)
    gpu_state, gpu_steps = trained(trial, GPU, replayed)
    for step, cpu_step in zip(gpu_steps, cpu_steps, strict=True):
        assert step.loss.item() == pytest.approx(cpu_step.loss.item(), rel=1e-3)
        assert step.gradient_norm.item() == pytest.approx(cpu_step.gradient_norm.item(), rel=1e-3)
    assert (weights(gpu_state) - weights(expected)).norm() < 1e-3 * weights(expected).norm()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_replayed_step_equals_the_eager_one_dropout_included(precision: str) -> None:
    trial = small_trial(model=DROPPED_OUT, precision=precision, warmup_steps=100)
    expected, eager_steps = trained(trial, GPU)
    replayed_state, replayed_steps = trained(trial, GPU, replayed=True)
    for step, eager_step in zip(replayed_steps, eager_steps, strict=True):
        assert step.loss.item() == pytest.approx(eager_step.loss.item(), rel=1e-3)
    assert (weights(replayed_state) - weights(expected)).norm() < 1e-3 * weights(expected).norm()


def test_joined_blocks_take_the_steps_of_single_ones() -> None:
    trial = small_trial(
        model=replace(SMALL, d_k=8, d_v=16), warmup_steps=100, tokens_per_batch=1_000
    )
    pairs = random_pairs(400, longest=12)
    limit = 32_000
    blocks = TrainingBatches(
        pairs, trial.train.tokens_per_batch, trial.model.max_positions, trial.train.seed
    )
    joined, shapes = plan_graphs(
        blocks, trial, 30, Worker(device=GPU, tokens_per_micro_batch=limit)
    )
    assert joined.joins_blocks
    final_weights: list[torch.Tensor] = []
    for batches in (blocks, joined):
        state = start(trial, 30, GPU)
        run = make_forward_backward(state.model, trial, shapes)
        for step in STEPS:
            step_batches = [
                into_bucket(batch, shapes).to(GPU)
                for batch in batches.micro_batches(step, 0, 1, limit)
            ]
            assert len(step_batches) == (1 if batches is joined else len(blocks.blocks(step)))
            train_step(state, step_batches, trial, Worker(device=GPU), run)
        final_weights.append(weights(state))
    assert (final_weights[0] - final_weights[1]).norm() < 1e-3 * final_weights[0].norm()


def test_attention_is_torchs_own_within_a_trial_alone() -> None:
    assert torch.backends.cuda.cudnn_sdp_enabled()
    with efficient(SMALL, "bf16", GPU):
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert torch.backends.cuda.cudnn_sdp_enabled()


def test_small_gradients_pass_through_recurrence_in_bfloat16() -> None:
    """The loss of a batch of 25,000 pieces is divided by their number, and float16 loses it."""
    on_cpu = Recurrence(SMALL)
    on_gpu = copy.deepcopy(on_cpu).to(GPU)
    x = torch.randn(4, 9, SMALL.d_model)
    (on_cpu(x, None).square().sum() / 25_000).backward()
    with autocast("bf16", GPU):
        output = on_gpu(x.to(GPU), None)
        loss = output.square().sum() / 25_000
    loss.backward()
    assert output.dtype == torch.float32
    for weight, expected in zip(on_gpu.parameters(), on_cpu.parameters(), strict=True):
        assert weight.grad is not None
        assert expected.grad is not None
        error = (weight.grad.cpu() - expected.grad).norm()
        assert error < 1e-2 * expected.grad.norm()


@pytest.mark.parametrize("replayed", [False, True])
@pytest.mark.parametrize("changes", [{}, *VARIANTS], ids=str)
def test_a_step_does_not_wait_for_the_gpu(replayed: bool, changes: dict[str, Any]) -> None:
    trial = small_trial(model=replace(DROPPED_OUT, **changes), precision="bf16")
    source = batches(trial)
    shape = max(source.shapes())
    state = start(trial, 30, GPU)
    worker = Worker(device=GPU)
    run = make_forward_backward(state.model, trial, [shape] if replayed else [])
    batch = next(
        into_bucket(share(source, s), [shape]).to(GPU)
        for s in STEPS
        if share(source, s).shape == shape
    )
    for _ in range(3):
        train_step(state, [batch, batch], trial, worker, run)
    with no_waiting():
        step = train_step(state, [batch, batch], trial, worker, run)
        with pytest.raises(RuntimeError):  # to read a result is to wait, and is detected
            step.loss.item()
    assert state.step == 4
    assert 0 < step.loss.item() < 10


@pytest.mark.parametrize(("first", "second"), [(GPU, CPU), (CPU, GPU)], ids=str)
def test_a_run_resumes_on_another_device(first: Any, second: Any) -> None:
    config = small_trial(
        steps=20, warmup_steps=100, log_every=5, evaluate_every=10, checkpoint_every=10
    )

    def fitted(trial: ToyTrial, device: torch.device) -> TrainState:
        state = start(config, 30, device)
        if trial.saved:
            state.load(trial.saved)
        fit(state, trial, batches(config), DEV, Worker(device=device))
        return state

    begun = ToyTrial(config, stops_after=10)
    fitted(begun, first)
    state = fitted(begun.again(), second)
    uninterrupted = fitted(ToyTrial(config), CPU)
    assert state.step == 20
    assert (weights(state) - weights(uninterrupted)).norm() < 1e-3 * weights(uninterrupted).norm()
