"""The mean of the last checkpoints: which steps it is of follows from the settings for scoring alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trials import DECODE, SMALL, copy_data, prepared_text, small_trial
from toy_trial import ToyTrial

from sweeps.task import MissingStepError
from transformer.config import TrialConfig
from transformer.data.prepared import Prepared
from transformer.decoding.evaluation import EvaluationSet, evaluate_set
from transformer.decoding.translator import Translator
from transformer.task import TRANSLATION
from transformer.training.state import mean_weights, start
from transformer.training.worker_group import Worker
from transformer.work import work

AVERAGED = replace(DECODE, average_checkpoints=3, average_every=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def config(folder: Path) -> TrialConfig:
    """Averages steps 4, 8 and 12; observes at others."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    often: dict[str, Any] = {"steps": 13, "checkpoint_every": 6, "evaluate_every": 5, "keep_checkpoints": 1}
    return small_trial(data, replace(SMALL, p_drop=0.1), AVERAGED, warmup_steps=100, **often)


@pytest.fixture(scope="module")
def prepared(config: TrialConfig, folder: Path) -> Prepared:
    return prepared_text(config.data, folder)


@pytest.fixture(scope="module")
def uninterrupted(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    return worked(ToyTrial(config, prepared.folder))


def worked(trial: ToyTrial) -> ToyTrial:
    """The trial after its work; its store keeps only what the task asks it to keep, and the newest."""
    work(trial)
    keep = TRANSLATION.keep(trial.config)
    newest = sorted(trial.checkpoints)[-keep.newest :]
    trial.checkpoints = {step: trial.checkpoints[step] for step in {*newest, *keep.steps} & trial.checkpoints.keys()}
    return trial


def test_the_scores_are_those_of_the_mean_of_the_last_multiples(
    config: TrialConfig, prepared: Prepared, uninterrupted: ToyTrial
) -> None:
    assert config.averaged_steps == [4, 8, 12]
    assert sorted(uninterrupted.checkpoints) == [4, 8, 12, 13]
    assert config.problems() == []
    states = [uninterrupted.checkpoints[step] for step in (4, 8, 12)]
    model = start(config, len(prepared.vocabulary), torch.device("cpu")).model
    model.load_state_dict(mean_weights(states, model))
    translator = Translator(model.eval(), prepared.vocabulary, config.decode, config.train.precision)
    for name, weight in model.state_dict().items():
        mean = torch.stack([saved.state["model"][name] for saved in states]).mean(0)
        torch.testing.assert_close(weight, mean)
    found = evaluate_set(translator, EvaluationSet.of(prepared, "dev", "letters"), Worker(tokens_per_micro_batch=8000))
    assert found is not None
    assert uninterrupted.said("evaluated")[0][:2] == ("dev", found.scores)
    last = worked(ToyTrial(replace(config, decode=DECODE), prepared.folder))
    assert last.said("evaluated")[0][1]["nll"] == last.reports[13]["dev/nll"] != found.scores["nll"]


@pytest.mark.parametrize("steps", [[10], [2, 4, 5, 7, 10, 11]], ids=str)
def test_a_stopped_trial_is_scored_with_the_weights_of_an_uninterrupted_one(
    uninterrupted: ToyTrial, steps: list[int]
) -> None:
    trial = worked(ToyTrial(uninterrupted.config, uninterrupted.data, stops_after=steps[0]))
    for step in [*steps[1:], 99]:
        assert trial.said("evaluated") == []
        trial = worked(trial.again(stops_after=step))
    assert trial.said("evaluated") == uninterrupted.said("evaluated")
    assert trial.checkpoints.keys() == uninterrupted.checkpoints.keys()


def test_a_missing_checkpoint_is_not_replaced_by_another(uninterrupted: ToyTrial) -> None:
    again = uninterrupted.again()
    del again.checkpoints[8]
    with pytest.raises(MissingStepError, match="step 8"):
        work(again)
    assert again.said("evaluated") == []


@pytest.mark.parametrize(("n", "every", "fits"), [(3, 200, True), (3, 201, False), (1, 601, True), (600, 1, True)])
def test_the_steps_of_an_average_must_lie_within_training(n: int, every: int, fits: bool) -> None:
    decode = replace(DECODE, average_checkpoints=n, average_every=every)
    problems = [str(problem) for problem in small_trial(decode=decode, steps=600).problems()]
    allowed = "times decode.average_every (201), it must be at most train.steps (600)"
    assert problems == ([] if fits else [f"decode.average_checkpoints: is 3; {allowed}."])
    if fits:
        steps = small_trial(decode=decode, steps=600).averaged_steps
        assert (len(steps), steps[-1]) == (n, 600)
        assert steps[0] > 0
