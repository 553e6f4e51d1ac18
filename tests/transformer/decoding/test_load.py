"""Models from saved states: one, or the mean of several."""

from dataclasses import replace

import pytest
import torch
from small_trials import DECODE, SMALL, copy_data, prepared_text, small_trial

from sweeps.task import Saved
from transformer.config import TrialConfig
from transformer.data.prepared import Prepared
from transformer.decoding.translator import load
from transformer.training.state import MisfitError, start

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("copies")
    return prepared_text(copy_data(folder, (60, 20, 5), "abcdef", longest=8, vocab_size=270), folder)


def saved(config: TrialConfig, step: int) -> Saved:
    """A state whose weights are all the step's number."""
    weights = start(config, 270, CPU).model.state_dict()
    return Saved(step, {"model": {name: torch.full_like(weight, float(step)) for name, weight in weights.items()}})


@pytest.mark.parametrize(("steps", "mean"), [([15], 15.0), ([10, 15], 12.5), ([5, 10, 15], 10.0)], ids=str)
def test_the_weights_are_the_mean_of_the_states(prepared: Prepared, steps: list[int], mean: float) -> None:
    config = replace(small_trial(precision="bf16"), decode=replace(DECODE, beam=2))
    found = load(config, prepared.vocabulary, (saved(config, step) for step in steps), CPU)
    assert not found.model.training
    assert (found.decode, found.precision) == (config.decode, "bf16")
    assert found.model.embedding[0, 0].item() == mean


def test_a_state_of_another_model_is_refused_in_one_line(prepared: Prepared) -> None:
    config = small_trial()
    wider = saved(small_trial(model=replace(SMALL, d_ff=32)), 10)
    with pytest.raises(MisfitError, match=r"^the checkpoint of step 10 does not fit .*$"):
        load(config, prepared.vocabulary, [saved(config, 5), wider], CPU)
