"""One trial from its configuration to its scores, and what it says on the way."""

import json
from pathlib import Path

import pytest
from small_trials import SMALL, copy_data, prepared_text, small_trial
from toy_trial import ToyTrial

from sweeps.task import Saved, StateError
from transformer.config import TrialConfig
from transformer.cost import parameters
from transformer.data.prepared import Prepared
from transformer.work import work, worker_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def config(folder: Path) -> TrialConfig:
    """One training pair does not fit."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    with (folder / "train.txt").open("a") as file:
        file.write("a " * 60 + "\n")
    return small_trial(data, SMALL)


@pytest.fixture(scope="module")
def prepared(config: TrialConfig, folder: Path) -> Prepared:
    return prepared_text(config.data, folder)


@pytest.fixture(scope="module")
def whole(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    trial = ToyTrial(config, prepared.folder)
    work(trial)
    return trial


def test_a_trial_tells_of_its_data_and_its_costs(whole: ToyTrial, prepared: Prepared) -> None:
    pairs = {"train": 60, "blank": 0, "too_long": 1}
    assert whole.said("about") == [{"vocabulary": prepared.vocabulary_sha256, "pairs": pairs}]
    (notice,) = whole.said("notice")
    assert "1 of 61 training pairs are left out" in notice
    (costs,) = whole.said("spent")
    assert costs.params == parameters(whole.config.model, 270)
    assert costs.flops > 0


def test_every_set_is_scored_with_texts_and_samples(whole: ToyTrial, prepared: Prepared) -> None:
    assert [name for name, *_ in whole.said("evaluated")] == ["dev", "test"] == prepared.evaluation_sets
    for name, scores, texts, samples in whole.said("evaluated"):
        (text,) = texts.values()
        assert list(texts) == [f"hypotheses/{name}.txt"]
        assert len(text.splitlines()) == len(samples) == len(prepared.references(name))
        assert {"nll", "ppl", "bleu", "chrf"} < scores.keys()
        json.dumps([scores, samples])
    assert whole.said("evaluated")[0][1]["nll"] == whole.reports[10]["dev/nll"]


def test_a_stopped_trial_is_not_scored_and_goes_on_without_repeating_itself(whole: ToyTrial) -> None:
    first = ToyTrial(whole.config, whole.data, stops_after=7)
    work(first)
    assert (max(first.checkpoints), max(first.reports)) == (7, 7)
    assert first.said("evaluated") == first.said("spent") == []
    second = first.again()
    work(second)
    assert second.said("notice") == []
    assert list(second.reports) == [10]
    assert (second.said("evaluated"), second.said("spent")) == (whole.said("evaluated"), whole.said("spent"))


def test_a_checkpoint_that_does_not_fit_is_a_state_error(whole: ToyTrial) -> None:
    with pytest.raises(StateError, match=r"^the checkpoint of step 7 does not fit the model"):
        work(ToyTrial(whole.config, whole.data, saved=Saved(7, {})))


def test_sets_with_scores_are_not_scored_again(whole: ToyTrial) -> None:
    again = whole.again(scored={"dev": {"nll": 1.0}})
    work(again)
    assert again.reports == {}
    assert again.said("evaluated") == whole.said("evaluated")[1:]


def test_scoring_breaks_off_when_the_trial_is_told_to_stop(whole: ToyTrial) -> None:
    again = whole.again(stops_alone=True)
    work(again)
    assert again.said("evaluated") == []


def test_the_limit_of_a_micro_batch_follows_the_device_unless_it_is_set() -> None:
    assert worker_of(ToyTrial(small_trial())).tokens_per_micro_batch == 8000
    assert worker_of(ToyTrial(small_trial(tokens_per_micro_batch=70))).tokens_per_micro_batch == 70
