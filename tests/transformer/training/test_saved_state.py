"""A state that does not fit the model or the training is refused in one line, and the previous checkpoint is used."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trials import KEY, random_pairs, share, small_trial

from transformer.data.batches import TrainingBatches
from transformer.training.checkpoint import Checkpoints
from transformer.training.checkpoint_files import DamagedError, on_host
from transformer.training.parallel import Worker
from transformer.training.resume import digest, resume
from transformer.training.saved_state import check_state
from transformer.training.train import TrainState, make_forward_backward, start, train_step

TRIAL = small_trial(steps=4)
BATCHES = TrainingBatches(random_pairs(60, longest=12), TRIAL.train.tokens_per_batch, TRIAL.model.max_positions, 1)

Spoil = Callable[[dict[str, Any]], object]


def fresh() -> TrainState:
    return start(TRIAL, 30, torch.device("cpu"))


def trained(steps: int) -> dict[str, Any]:
    """A plain state after this many steps."""
    state = fresh()
    for step in range(1, steps + 1):
        train_step(state, [share(BATCHES, step)], TRIAL, Worker(), make_forward_backward(state.model, TRIAL))
    plain: dict[str, Any] = on_host(state.to_dict())
    return plain


def put(*path: Any, value: Any) -> Spoil:
    """Set the value at this path."""

    def spoil(state: dict[str, Any]) -> None:
        for key in path[:-1]:
            state = state[key]
        state[path[-1]] = value

    return spoil


def drop(*path: Any) -> Spoil:
    def spoil(state: dict[str, Any]) -> None:
        for key in path[:-1]:
            state = state[key]
        del state[path[-1]]

    return spoil


def all_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    return lambda state: state.update(model={name: change(weight) for name, weight in state["model"].items()})


def all_moments(name: str, change: Callable[[torch.Tensor], Any]) -> Spoil:
    def spoil(state: dict[str, Any]) -> None:
        for items in state["optimizer"]["state"].values():
            items[name] = change(items[name])

    return spoil


def report(metrics: dict[Any, Any]) -> dict[str, Any]:
    return {"step": 2, "ts": 1.0, "metrics": metrics}


SPOILT: dict[str, tuple[Spoil, str]] = {
    "int8 weights": (all_weights(lambda weight: weight.to(torch.int8)), "is int8 of"),
    "bfloat16 weights": (all_weights(lambda weight: weight.bfloat16()), "is bfloat16 of"),
    "weights of another shape": (all_weights(lambda weight: weight[:1]), "but must be float32 of"),
    "a weight is missing": (drop("model", "embedding"), "weight embedding is missing"),
    "a weight is unknown": (put("model", "more", value=torch.ones(2)), "weight 'more' is unknown"),
    "a weight is a number": (put("model", "embedding", value=0.5), "weight embedding is a float, not a tensor"),
    "weights are a list": (put("model", value=[1.0]), "model is not weights by name"),
    "no weights": (drop("model"), "model is missing"),
    "moments of another shape": (all_moments("exp_avg", lambda moment: moment.flatten()[:1]), "but must be float32"),
    "second moments transposed": (all_moments("exp_avg_sq", lambda moment: moment[None]), "Adam's 0.exp_avg_sq is"),
    "int8 moments": (all_moments("exp_avg", lambda moment: moment.to(torch.int8)), "Adam's 0.exp_avg is int8 of"),
    "a moment is missing": (drop("optimizer", "state", 0, "exp_avg_sq"), "Adam's 0.exp_avg_sq is missing"),
    "moments of one parameter are missing": (drop("optimizer", "state", 3), "Adam's 3.step is missing, and 2 more"),
    "moments of one parameter too many": (
        put("optimizer", "state", 999, value={"step": torch.tensor(4.0)}),
        "Adam's '999.step' is unknown",
    ),
    "no moments": (put("optimizer", "state", value={}), "Adam's 0.step is missing"),
    "moments are a list": (put("optimizer", "state", value=[1]), "the moments of Adam are missing"),
    "Adam counts fewer": (all_moments("step", lambda count: count - 1), "Adam counts 3 steps, but step is 4"),
    "Adam counts NaN": (all_moments("step", lambda count: count * math.nan), "Adam counts nan steps"),
    "Adam's count is an integer": (all_moments("step", lambda count: count.long()), "Adam's 0.step is int64 of one"),
    "no rate": (drop("optimizer", "param_groups", 0, "lr"), "optimizer is not the moments and learning rate"),
    "no groups": (put("optimizer", "param_groups", value=[]), "optimizer is not the moments and learning rate"),
    "no Adam": (put("optimizer", value=None), "optimizer is not the moments and learning rate"),
    "reports are missing": (drop("reports"), "reports is missing"),
    "reports are not a list": (put("reports", value={"step": 1}), "reports is not the reports up to its step"),
    "a report without its step": (put("reports", value=[{"ts": 1.0, "metrics": {}}]), "reports is not the reports"),
    "metrics are words": (put("reports", value=[report({"train/loss": "3.5"})]), "reports is not the reports"),
    "metrics without names": (put("reports", value=[report({1: 3.5})]), "reports is not the reports"),
    "seconds are missing": (drop("seconds"), "seconds is missing"),
    "seconds are NaN": (put("seconds", value=math.nan), "seconds is not a finite number of at least 0"),
    "seconds are negative": (put("seconds", value=-1.0), "seconds is not a finite number of at least 0"),
    "lengths are missing": (drop("lengths", "target"), "lengths is not the sums of lengths by name"),
    "lengths are words": (put("lengths", "target", value="7"), "lengths is not the sums of lengths by name"),
    "no best": (put("best_nll", value=None), "best_nll is not a number"),
}


@pytest.mark.parametrize(("spoil", "said"), SPOILT.values(), ids=SPOILT.keys())
def test_a_misfit_state_is_skipped_and_nothing_of_it_is_loaded(spoil: Spoil, said: str, tmp_path: Path) -> None:
    saved, state = Checkpoints(str(tmp_path), KEY, 1, keep=9), fresh()
    misfit = trained(4)
    spoil(misfit)
    for plain in (trained(2), misfit):
        saved.save(plain["step"], plain)
    saved.wait()
    checkpoints = Checkpoints(str(tmp_path), KEY, 2, keep=9)
    assert resume(state, TRIAL.train.steps, checkpoints, Worker())
    expected = fresh()
    expected.load(trained(2))
    assert (state.step, digest(state)) == (2, digest(expected))
    (line,) = checkpoints.notices()
    assert "a1/step-4: state.pt does not fit: " in line
    assert said in line
    assert "\n" not in line


@pytest.mark.parametrize("step", [-1, True, 4.0, "4", None, 5, 700])
def test_a_step_is_a_whole_number_of_this_training(step: Any) -> None:
    state = fresh()
    with pytest.raises(DamagedError, match=r"does not fit: step is .*(a whole number|but training has 4 steps)"):
        check_state(trained(4) | {"step": step}, state.model, TRIAL.train.steps)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_state_saved_by_training_fits(steps: int) -> None:
    check_state(trained(steps), fresh().model, TRIAL.train.steps)


def test_other_entries_of_a_state_are_ignored() -> None:
    check_state(trained(1) | {"notes": [1, "two"]}, fresh().model, TRIAL.train.steps)


def test_a_state_of_another_step_than_its_folder_is_skipped(tmp_path: Path) -> None:
    saved = Checkpoints(str(tmp_path), KEY, 1, keep=9)
    saved.save(3, trained(4))
    saved.wait()
    checkpoints = Checkpoints(str(tmp_path), KEY, 2, keep=9)
    assert not resume(fresh(), TRIAL.train.steps, checkpoints, Worker())
    assert "a1/step-3: state.pt is from step 4" in checkpoints.notices()[0]
