"""Capturable Adam takes the same steps as plain Adam, and each resumes from the other's saved state."""

import copy
from typing import Any

import pytest
import torch
from small_trials import small_trial

from transformer.training.optimizer import adam, set_learning_rate
from transformer.training.schedule import learning_rate
from transformer.training.train import TrainState

BOTH_WAYS = pytest.mark.parametrize("capturable", [False, True])


def fresh(capturable: bool) -> TrainState:
    torch.manual_seed(1)
    model: Any = torch.nn.Linear(5, 3)
    return TrainState(model, adam(model, capturable))


def trained(state: TrainState, steps: range) -> TrainState:
    for step in steps:
        torch.manual_seed(step)
        for parameter in state.model.parameters():
            parameter.grad = torch.randn_like(parameter)
        set_learning_rate(state.optimizer, learning_rate(small_trial().train, 16, step))
        state.optimizer.step()
    return state


def assert_close(first: TrainState, second: TrainState) -> None:
    for mine, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        moments, others = first.optimizer.state[mine], second.optimizer.state[other]
        for name in ("step", "exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(moments[name], others[name], rtol=1e-6, atol=0)


def test_the_steps_are_the_same() -> None:
    assert_close(trained(fresh(True), range(1, 6)), trained(fresh(False), range(1, 6)))


def test_capturable_adam_always_reads_its_rate_from_the_same_tensor() -> None:
    state = fresh(True)
    (rate,) = (group["lr"] for group in state.optimizer.param_groups)
    trained(state, range(1, 4))
    assert state.optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == pytest.approx(learning_rate(small_trial().train, 16, 3), rel=1e-6)


@BOTH_WAYS
def test_each_resumes_from_the_other_s_saved_state(capturable: bool) -> None:
    saved = copy.deepcopy(trained(fresh(not capturable), range(1, 4)).to_dict())
    resumed = fresh(capturable)
    resumed.load(saved)
    (group,) = resumed.optimizer.param_groups
    assert group["capturable"] is capturable
    assert isinstance(group["lr"], torch.Tensor) is capturable
    assert float(group["lr"]) == pytest.approx(learning_rate(small_trial().train, 16, 3), rel=1e-6)
    assert_close(trained(resumed, range(4, 6)), trained(fresh(capturable), range(1, 6)))
