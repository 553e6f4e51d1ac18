"""Models from checkpoints: the requested one, or the mean of the last."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_trials import DECODE, KEY, OWN, copy_data, prepared_text, small_trial

from sweeps.schema import RefusedError
from transformer.config import TrialConfig
from transformer.data.prepare import Prepared
from transformer.decoding.load import load
from transformer.training.checkpoint import Checkpoints
from transformer.training.train import start

CPU = torch.device("cpu")
STEPS = (5, 10, 15)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    folder = tmp_path_factory.mktemp("copies")
    return prepared_text(copy_data(folder, (60, 20, 5), "abcdef", longest=8, vocab_size=270), folder)


@pytest.fixture
def trial() -> TrialConfig:
    return small_trial(keep_checkpoints=3)


@pytest.fixture
def checkpoints(trial: TrialConfig, tmp_path: Path) -> Checkpoints:
    """Checkpoints of one attempt; all weights of a step are the step's number."""
    saved = Checkpoints(str(tmp_path), KEY, 1, keep=3)
    state = start(trial, 270, CPU)
    for step in STEPS:
        state.step = step
        state.model.load_state_dict({k: torch.full_like(v, float(step)) for k, v in state.model.state_dict().items()})
        saved.save(step, state.to_dict())
    saved.wait()
    return saved


def weight(trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints, step: int, average: int = 1) -> float:
    """One weight of the loaded model."""
    requested = replace(trial, decode=replace(DECODE, average_checkpoints=average))
    found = load(requested, prepared.vocabulary, checkpoints, step, CPU)
    assert not found.model.training
    assert (found.decode, found.precision) == (requested.decode, "fp32")
    return found.model.embedding[0, 0].item()


def test_the_checkpoint_of_a_step_is_loaded(trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints) -> None:
    assert [weight(trial, prepared, checkpoints, step) for step in STEPS] == [5, 10, 15]


def test_the_mean_is_of_the_newest_up_to_the_step(
    trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints
) -> None:
    assert weight(trial, prepared, checkpoints, 15, average=2) == 12.5
    assert weight(trial, prepared, checkpoints, 10, average=2) == 7.5
    assert weight(trial, prepared, checkpoints, 15, average=3) == 10


def test_more_checkpoints_than_exist_are_refused(
    trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints
) -> None:
    with pytest.raises(RefusedError, match=r"decode.average_checkpoints: is 4; must be at most 3"):
        weight(trial, prepared, checkpoints, 15, average=4)


def test_a_missing_checkpoint_is_not_replaced_by_an_older_one(
    trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / OWN / "a1" / "step-10")
    with pytest.raises(RefusedError, match=r"is 2; must be at most 1, .*: the checkpoint of step 10 is missing\.$"):
        weight(trial, prepared, checkpoints, 15, average=2)


def test_the_checkpoint_of_a_stop_is_averaged_only_on_request(
    trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints
) -> None:
    state = start(trial, 270, CPU)
    state.step = 13
    state.model.load_state_dict({k: torch.full_like(v, 13.0) for k, v in state.model.state_dict().items()})
    checkpoints.save(13, state.to_dict(), stop=True)
    assert weight(trial, prepared, checkpoints, 15, average=2) == 12.5
    assert weight(trial, prepared, checkpoints, 13, average=2) == 11.5


def test_a_damaged_checkpoint_is_refused(
    trial: TrialConfig, prepared: Prepared, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    state = tmp_path / OWN / "a1" / "step-15" / "state.pt"
    state.write_bytes(state.read_bytes()[:-9])
    with pytest.raises(RefusedError, match="the checkpoint of step 15 is missing"):
        weight(trial, prepared, checkpoints, 15)
    assert weight(trial, prepared, checkpoints, 10) == 10
