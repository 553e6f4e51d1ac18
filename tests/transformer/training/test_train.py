"""One step against Adam by hand, and ``fit``: its reports, its checkpoints, and a divergence."""

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from small_trials import DECODE, SMALL, random_pairs, share, small_trial
from torch import Tensor
from toy_trial import ToyTrial

from sweeps.task import DivergedError, Saved, StateError
from transformer.config import TrialConfig
from transformer.data.batches import TrainingBatches, collate
from transformer.model.encoder_decoder import EncoderLayer
from transformer.training.loss import summed_loss
from transformer.training.state import TrainState, learning_rate, start
from transformer.training.train import fit, make_forward_backward, train_step
from transformer.training.worker_group import Worker

PAIRS = random_pairs(80, longest=12)
DEV = random_pairs(15, longest=12, seed=5)
DROPPED_OUT = replace(SMALL, p_drop=0.2, attention_dropout=0.1, relu_dropout=0.1)
CPU = torch.device("cpu")
GOLDEN_LOSSES = [3.884123, 3.574511, 3.449555, 3.699124]
GOLDEN_NLL = 3.374437


def batches(trial: TrialConfig) -> TrainingBatches:
    return TrainingBatches(
        PAIRS, trial.train.tokens_per_batch, trial.model.max_positions, trial.train.seed
    )


def fresh(trial: TrialConfig) -> TrainState:
    return start(trial, 30, CPU)


def trained(trial: ToyTrial) -> TrainState:
    """The state after one attempt."""
    state = fresh(trial.config)
    if trial.saved:
        state.load(trial.saved)
    fit(state, trial, batches(trial.config), DEV, Worker())
    return state


def gradients(state: TrainState) -> dict[str, Tensor]:
    """Gradients of the first step, from Adam's first moment, which is a tenth of them."""
    return {
        name: state.optimizer.state[p]["exp_avg"] / 0.1
        for name, p in state.model.named_parameters()
    }


PAPERS_ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-9}
OTHER_ADAM = {"adam_beta1": 0.7, "adam_beta2": 0.999, "adam_epsilon": 1e-3}


@pytest.mark.parametrize("settings", [{}, OTHER_ADAM], ids=["the paper's constants", "others"])
def test_a_step_is_adam_on_the_mean_loss_of_a_target_piece(settings: dict[str, Any]) -> None:
    trial = small_trial(warmup_steps=4, **settings)
    beta1, beta2, epsilon = (PAPERS_ADAM | settings).values()
    state = fresh(trial)
    twin = fresh(trial)
    first_moment: dict[str, Tensor] = {}
    second_moment: dict[str, Tensor] = {}
    for step in range(1, 4):
        batch = share(batches(trial), step)
        loss = summed_loss(twin.model, twin.model(batch.source, batch.shifted), batch.target, 0.1)
        (loss / int((batch.target != 0).sum())).backward()
        step_loss = train_step(
            state, [batch], trial, Worker(), make_forward_backward(state.model, trial)
        ).loss
        assert step_loss.item() == pytest.approx(loss.item() / batch.total_targets, rel=1e-6)
        with torch.no_grad():
            for name, weight in twin.model.named_parameters():
                assert weight.grad is not None
                m = first_moment[name] = (
                    beta1 * first_moment.get(name, 0) + (1 - beta1) * weight.grad
                )
                v = second_moment[name] = (
                    beta2 * second_moment.get(name, 0) + (1 - beta2) * weight.grad**2
                )
                corrected = (v / (1 - beta2**step)).sqrt() + epsilon
                weight.sub_(
                    learning_rate(trial.train, 16, step) * m / (1 - beta1**step) / corrected
                )
                weight.grad = None
        for name, weight in state.model.named_parameters():
            torch.testing.assert_close(weight, twin.model.get_parameter(name), rtol=1e-4, atol=2e-6)
    assert state.step == 3


def test_dropout_differs_between_steps_and_seeds_and_workers() -> None:
    def loss(step: int = 1, seed: int = 1, rank: int = 0) -> float:
        trial = small_trial(model=DROPPED_OUT, seed=seed)
        state = start(small_trial(model=DROPPED_OUT), 30, CPU)
        state.step = step - 1
        return train_step(
            state,
            [share(batches(small_trial()), 1)],
            trial,
            Worker(rank),
            make_forward_backward(state.model, trial),
        ).loss.item()

    assert loss() == loss()
    assert len({loss(), loss(step=2), loss(seed=2), loss(rank=1)}) == 4


def test_the_first_losses_are_those_of_every_version() -> None:
    """Another number means that a configuration trains to another result: raise ``SEMANTICS``."""
    trial = ToyTrial(small_trial(model=DROPPED_OUT, steps=4, log_every=1, warmup_steps=4))
    trained(trial)
    losses = [metrics["train/loss"] for metrics in trial.reports.values()]
    assert losses == pytest.approx(GOLDEN_LOSSES, rel=1e-4)
    assert trial.reports[4]["dev/nll"] == pytest.approx(GOLDEN_NLL, rel=1e-4)


def test_a_state_that_does_not_fit_is_refused_in_one_line() -> None:
    config = small_trial()
    first = ToyTrial(config)
    trained(first)
    saved = first.checkpoints[10]
    wider = start(small_trial(model=replace(SMALL, d_ff=32)), 30, CPU)
    misfits = [
        replace(saved, state={**saved.state, "optimizer": {"state": {}}}),
        Saved(10, {}),
        Saved(10, None),
    ]
    for state, misfit in [(wider, saved), *((fresh(config), misfit) for misfit in misfits)]:
        with pytest.raises(StateError, match=r"^the checkpoint of step 10 does not fit .*$"):
            state.load(misfit)
    fresh(config).load(saved)


def test_reports_come_at_the_set_steps_and_at_the_end_one_per_step() -> None:
    trial = ToyTrial(small_trial(steps=11, log_every=2, evaluate_every=3, checkpoint_every=5))
    trained(trial)
    reports = {}
    for step, metrics in trial.reports.items():
        reports[step] = {name.split("/")[0] for name in metrics}
    evaluated = {step for step, groups in reports.items() if "dev" in groups}
    assert list(reports) == [2, 3, 4, 5, 6, 8, 9, 10, 11]
    assert evaluated == {3, 6, 9, 11}
    assert all("train" in groups for groups in reports.values())


def test_a_checkpoint_comes_after_the_report_of_its_step_with_the_dev_nll_as_its_score() -> None:
    """At its own steps, at those of an average, at the best so far, and at the end or where the
    trial is stopped."""
    averaged = replace(DECODE, average_checkpoints=2, average_every=3)
    config = small_trial(
        decode=averaged, steps=20, checkpoint_every=7, evaluate_every=4, log_every=50
    )
    trial = ToyTrial(config, stops_after=19)
    trained(trial)
    nll = {
        step: metrics["dev/nll"] for step, metrics in trial.reports.items() if "dev/nll" in metrics
    }
    best = set()
    for step, value in nll.items():
        if value == min(nll[earlier] for earlier in nll if earlier <= step):
            best.add(step)
    assert 4 in best < set(nll) == {4, 8, 12, 16}
    saved = sorted({7, 14, 15, 18, 19} | best)
    assert trial.said("checkpoint") == [(step, nll.get(step)) for step in saved]
    for step in saved:
        index = trial.calls.index(("report", step))
        assert trial.calls[index + 1] == ("checkpoint", (step, nll.get(step)))


@pytest.mark.parametrize("micro_batches", [2, 5])
def test_without_dropout_a_step_in_several_micro_batches_is_the_same_step(
    micro_batches: int,
) -> None:
    trial = small_trial(tokens_per_batch=400)
    indices = np.arange(30)
    unsplit = fresh(trial)
    split = fresh(trial)
    first = train_step(
        unsplit,
        [collate(PAIRS, indices)],
        trial,
        Worker(),
        make_forward_backward(unsplit.model, trial),
    )
    parts = [collate(PAIRS, indices, part, micro_batches) for part in range(micro_batches)]
    second = train_step(split, parts, trial, Worker(), make_forward_backward(split.model, trial))
    assert second.loss.item() == pytest.approx(first.loss.item(), rel=1e-6)
    assert second.gradient_norm.item() == pytest.approx(first.gradient_norm.item(), rel=1e-6)
    expected = torch.cat([gradient.flatten() for gradient in gradients(unsplit).values()])
    summed = torch.cat([gradient.flatten() for gradient in gradients(split).values()])
    assert (expected - summed).norm() < 1e-6 * expected.norm()


def poisoned(trial: TrialConfig, at_step: int) -> TrainState:
    """A state with a NaN gradient from ``at_step`` on."""
    state = fresh(trial)

    def spoil(gradient: Tensor) -> Tensor:
        return gradient * float("nan") if state.step >= at_step else gradient

    cast(EncoderLayer, state.model.encoder[0]).feed_forward.outer.weight.register_hook(spoil)
    return state


def test_a_divergence_names_its_step_and_batch_and_nothing_later_is_kept() -> None:
    config = small_trial(log_every=3, evaluate_every=4, checkpoint_every=2)
    trial = ToyTrial(config)
    with pytest.raises(DivergedError) as raised:
        fit(poisoned(config, 5), trial, batches(config), DEV, Worker())
    assert list(trial.reports) == [2, 3, 4]
    assert list(trial.checkpoints) == [2, 4]
    assert "gradient norm nan at step 5" in str(raised.value)
    assert f"learning rate {learning_rate(config.train, 16, 5):.3g}" in str(raised.value)
    assert batches(config).describe(5) in str(raised.value)


def test_the_loss_falls_in_bf16_and_weights_and_moments_stay_float32() -> None:
    trial = ToyTrial(
        small_trial(precision="bf16", steps=60, warmup_steps=20, tokens_per_batch=400, log_every=10)
    )
    state = trained(trial)
    losses = [metrics["train/loss"] for metrics in trial.reports.values()]
    assert losses[-1] < losses[0] - 0.25
    assert losses[-1] < math.log(30)  # the loss of a uniform guess among all pieces
    tensors = [
        *state.model.parameters(),
        *(m for s in state.optimizer.state.values() for m in s.values()),
    ]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
