"""The learning rate by hand; Adam resumes from a state of either device."""

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from small_trials import TRAIN, small_trial

from sweeps.task import Saved
from transformer.training.state import TrainState, adam, learning_rate, set_learning_rate

PAPER = replace(TRAIN, warmup_steps=4000)


def fresh(capturable: bool) -> TrainState:
    torch.manual_seed(1)
    model: Any = torch.nn.Linear(5, 3)
    return TrainState(model, adam(model, TRAIN, capturable))


def trained(state: TrainState, steps: range) -> TrainState:
    for step in steps:
        torch.manual_seed(step)
        for parameter in state.model.parameters():
            parameter.grad = torch.randn_like(parameter)
        set_learning_rate(state.optimizer, learning_rate(small_trial().train, 16, step))
        state.optimizer.step()
    return state


def assert_close(first: TrainState, second: TrainState) -> None:
    for parameter, theirs in zip(first.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(parameter, theirs, rtol=1e-5, atol=1e-6)
        moments = first.optimizer.state[parameter]
        other_moments = second.optimizer.state[theirs]
        for name in ("step", "exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(moments[name], other_moments[name], rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1, 1.746928e-07),  # 512^-0.5 · 4000^-1.5
        (1000, 1.746928e-04),
        (4000, 6.987712e-04),  # 512^-0.5 · 4000^-0.5
        (16000, 3.493856e-04),  # half the peak after four times the steps
        (100_000, 1.397542e-04),
    ],
)
def test_the_papers_learning_rate_at_base(step: int, rate: float) -> None:
    assert learning_rate(PAPER, 512, step) == pytest.approx(rate, rel=1e-6)
    assert learning_rate(replace(PAPER, lr_factor=2.0), 512, step) == pytest.approx(
        2 * rate, rel=1e-6
    )


@pytest.mark.parametrize("capturable", [False, True])
def test_each_resumes_from_the_other_s_saved_state(capturable: bool) -> None:
    saved = Saved(3, copy.deepcopy(trained(fresh(not capturable), range(1, 4)).to_dict()))
    resumed = fresh(capturable)
    resumed.load(saved)
    (group,) = resumed.optimizer.param_groups
    assert group["capturable"] is capturable
    assert isinstance(group["lr"], torch.Tensor) is capturable
    assert float(group["lr"]) == pytest.approx(learning_rate(small_trial().train, 16, 3), rel=1e-6)
    assert_close(trained(resumed, range(4, 6)), trained(fresh(capturable), range(1, 6)))


def test_the_best_likelihood_on_dev_is_resumed() -> None:
    state = trained(fresh(False), range(1, 2))
    state.best_nll = 1.25
    resumed = fresh(False)
    resumed.load(Saved(1, copy.deepcopy(state.to_dict())))
    assert resumed.best_nll == 1.25
