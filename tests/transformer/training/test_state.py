"""The weights of saved states: of one, or the mean of several."""

from dataclasses import replace

import pytest
import torch
from small_trials import SMALL, small_trial

from sweeps.task import Saved
from transformer.config import TrialConfig
from transformer.training.state import MisfitError, mean_weights, start

CPU = torch.device("cpu")


def saved(config: TrialConfig, step: int) -> Saved:
    """A state whose weights are all the step's number."""
    weights = start(config, 270, CPU).model.state_dict()
    return Saved(step, {"model": {name: torch.full_like(weight, float(step)) for name, weight in weights.items()}})


@pytest.mark.parametrize(("steps", "mean"), [([15], 15.0), ([10, 15], 12.5), ([5, 10, 15], 10.0)], ids=str)
def test_the_weights_are_the_mean_of_the_states(steps: list[int], mean: float) -> None:
    config = small_trial()
    found = mean_weights((saved(config, step) for step in steps), start(config, 270, CPU).model)
    assert found["embedding"][0, 0].item() == mean


def test_a_state_of_another_model_is_refused_in_one_line() -> None:
    config = small_trial()
    wider = saved(small_trial(model=replace(SMALL, d_ff=32)), 10)
    with pytest.raises(MisfitError, match=r"^the checkpoint of step 10 does not fit .*$"):
        mean_weights([saved(config, 5), wider], start(config, 270, CPU).model)
