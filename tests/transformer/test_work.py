"""One trial from its configuration to its scores, what it says on the way, and the mean of its last
checkpoints."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trials import DECODE, SMALL, copy_data, prepared_text, small_model, small_trial
from toy_trial import ToyTrial

from sweeps.task import MissingStepError
from transformer.config import TrialConfig
from transformer.cost import parameters
from transformer.data.prepared import Prepared
from transformer.decoding import evaluation
from transformer.decoding.evaluation import EvaluationSet, evaluate_set, greedy_scores
from transformer.decoding.translator import Translator
from transformer.task import TRANSLATION
from transformer.training.state import mean_weights, start
from transformer.training.worker_group import Worker
from transformer.work import work, worker_of

STEPS = 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def config(folder: Path) -> TrialConfig:
    """One training pair does not fit. The mean is of steps 4, 8 and 12; others are observed."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    with (folder / "train.txt").open("a") as file:
        file.write("a " * 60 + "\n")
    averaged = replace(DECODE, average_checkpoints=3, average_every=4)
    observed = {"checkpoint_every": 6}
    return small_trial(
        data, replace(SMALL, p_drop=0.1), averaged, steps=STEPS, keep_checkpoints=1, **observed
    )


@pytest.fixture(scope="module")
def prepared(config: TrialConfig, folder: Path) -> Prepared:
    return prepared_text(config.data, folder)


@pytest.fixture(scope="module")
def whole(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    return worked(ToyTrial(config, prepared.folder))


def worked(trial: ToyTrial) -> ToyTrial:
    """The trial after its work; its store keeps only what the task asks it to keep, and the
    newest."""
    work(trial)
    keep = TRANSLATION.keep(trial.config)
    newest = sorted(trial.checkpoints)[-keep.newest :]
    trial.checkpoints = {
        step: trial.checkpoints[step] for step in {*newest, *keep.steps} & trial.checkpoints.keys()
    }
    return trial


def test_a_trial_tells_of_its_data_and_its_costs(whole: ToyTrial, prepared: Prepared) -> None:
    pairs = {"train": 60, "blank": 0, "too_long": 1}
    assert whole.said("about") == [{"vocabulary": prepared.vocabulary_sha256, "pairs": pairs}]
    (notice,) = whole.said("notice")
    assert "1 of 61 training pairs are left out" in notice
    (costs,) = whole.said("spent")
    assert costs.params == parameters(whole.config.model, 270)
    assert costs.flops > 0


def test_longer_pairs_than_training_takes_are_counted_and_longer_sentences_are_scored(
    config: TrialConfig, prepared: Prepared
) -> None:
    """With sinusoids an evaluated sentence may be longer than any in training, and is not cut."""
    short = replace(config, train=replace(config.train, longest=8, steps=2), decode=DECODE)
    trial = ToyTrial(short, prepared.folder)
    assert TRANSLATION.data_problems(short, prepared.folder) == []
    work(trial)
    lengths = prepared.pairs("train").longest_sides
    left_out = int((lengths > 8).sum())
    assert 1 < left_out < len(lengths)
    pairs = {"train": len(lengths) - left_out, "blank": 0, "too_long": left_out}
    assert trial.said("about")[0]["pairs"] == pairs
    counts = f"{left_out} of {len(lengths)} training pairs are left out"
    assert trial.said("notice") == [f"{counts}: {left_out} longer than train.longest (8)"]
    assert prepared.pairs("dev").longest_sides.max() > 8
    assert [name for name, *_ in trial.said("evaluated")] == ["dev", "test"]


def test_the_scores_are_those_of_the_mean_of_the_last_multiples(
    whole: ToyTrial, prepared: Prepared
) -> None:
    config = whole.config
    assert (config.averaged_steps, sorted(whole.checkpoints)) == ([4, 8, 12], [4, 8, 12, STEPS])
    states = [whole.checkpoints[step] for step in (4, 8, 12)]
    model = start(config, 270, torch.device("cpu")).model
    model.load_state_dict(mean_weights(states, model))
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(
            weight, torch.stack([saved.state["model"][name] for saved in states]).mean(0)
        )
    translator = Translator(model.eval(), prepared.vocabulary, config.decode, "fp32")
    evaluation = evaluate_set(
        translator, EvaluationSet.of(prepared, "dev", config), Worker(tokens_per_micro_batch=8000)
    )
    assert evaluation is not None
    assert whole.said("evaluated")[0][:2] == ("dev", evaluation.scores)
    last = worked(ToyTrial(replace(config, decode=DECODE), prepared.folder))
    assert (
        last.said("evaluated")[0][1]["nll"]
        == last.reports[STEPS]["dev/nll"]
        != evaluation.scores["nll"]
    )


@pytest.mark.parametrize("steps", [[10], [2, 4, 5, 7, 10, 11]], ids=str)
def test_a_stopped_trial_is_scored_once_with_the_weights_of_an_uninterrupted_one(
    whole: ToyTrial, steps: list[int]
) -> None:
    trial = worked(ToyTrial(whole.config, whole.data, stops_after=steps[0]))
    for step in [*steps[1:], 99]:
        assert trial.said("evaluated") == trial.said("spent") == []
        trial = worked(trial.again(stops_after=step))
        assert trial.said("notice") == []
    assert (trial.said("evaluated"), trial.said("spent")) == (
        whole.said("evaluated"),
        whole.said("spent"),
    )
    assert trial.checkpoints.keys() == whole.checkpoints.keys()


def test_a_missing_checkpoint_is_not_replaced_by_another(whole: ToyTrial) -> None:
    resumed = whole.again()
    del resumed.checkpoints[8]
    with pytest.raises(MissingStepError, match="step 8"):
        work(resumed)
    assert resumed.said("evaluated") == []


def test_sets_with_scores_are_not_scored_again(whole: ToyTrial) -> None:
    resumed = whole.again(scored={"dev": {"nll": 1.0}})
    work(resumed)
    assert resumed.reports == {}
    assert resumed.said("evaluated") == whole.said("evaluated")[1:]


@pytest.fixture(scope="module")
def scored(whole: ToyTrial) -> ToyTrial:
    """The same trial, with greedy scores of the first five dev sentences while training."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "SENTENCES", 5)
        config = replace(whole.config, train=replace(whole.config.train, score_every=8))
        return worked(ToyTrial(config, whole.data))


def greedy(trial: ToyTrial) -> dict[int, dict[str, float]]:
    """The greedy scores of each step that has them."""
    by_step = {}
    for step, report in trial.reports.items():
        scores = {name: report[name] for name in report if name.startswith("dev_greedy/")}
        if scores:
            by_step[step] = scores
    return by_step


def test_greedy_scores_come_at_their_steps_and_at_the_end_and_change_no_weight(
    whole: ToyTrial, scored: ToyTrial
) -> None:
    assert greedy(whole) == {}
    assert greedy(scored).keys() == {8, STEPS}
    weights, unwatched = (trial.checkpoints[STEPS].state["model"] for trial in (scored, whole))
    assert all(torch.equal(weight, unwatched[name]) for name, weight in weights.items())
    assert scored.said("evaluated") == whole.said("evaluated")


def test_greedy_scores_are_those_of_greedy_translations_of_the_first_dev_sentences(
    config: TrialConfig, prepared: Prepared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of untrained models, the first that writes something for each sentence."""
    decode = replace(DECODE, beam=1)
    scored_texts = list[Any]()
    models = (
        Translator(small_model(270, seed=seed), prepared.vocabulary, decode, "fp32")
        for seed in range(50)
    )
    hypotheses, model = next(
        (lines, translator.model)
        for translator in models
        if all(lines := translator.translate(prepared.sources("dev")[:5]))
    )

    def noted(*texts: Any) -> Any:
        scored_texts.append(texts)
        return {"bleu": 1.0, "chrf": 2.0, "bleu_paper": 3.0}, []

    monkeypatch.setattr(evaluation, "SENTENCES", 5)
    monkeypatch.setattr(evaluation, "text_scores", noted)
    assert greedy_scores(config, prepared, Worker(), model) == {
        "dev_greedy/bleu": 1.0,
        "dev_greedy/chrf": 2.0,
    }
    assert scored_texts == [(hypotheses, prepared.references("dev")[:5], "letters", "13a")]


def test_a_stop_request_of_one_worker_waits_for_greedy_scores(scored: ToyTrial) -> None:
    stopped = worked(ToyTrial(scored.config, scored.data, stops_alone=True))
    assert greedy(stopped).keys() == {8, STEPS}
    assert stopped.said("evaluated") == []


def test_the_limit_of_a_micro_batch_follows_the_device_unless_it_is_set() -> None:
    assert worker_of(ToyTrial(small_trial())).tokens_per_micro_batch == 8000
    assert Worker().tokens_per_micro_batch == 8000
    assert worker_of(ToyTrial(small_trial(tokens_per_micro_batch=70))).tokens_per_micro_batch == 70
