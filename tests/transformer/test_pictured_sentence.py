"""``train.pictured_sentence``: a trial draws it when training ends, and nothing else changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from same_bits import differing, leaves
from small_trials import SMALL, copy_data, prepared_text, small_trial
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.task import TRANSLATION
from transformer.work import work

PICTURE = "pictures/attention.svg"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pictured")


@pytest.fixture(scope="module")
def config(folder: Path) -> TrialConfig:
    data = copy_data(folder, (60, 8, 5), "abcdef", longest=8, vocab_size=270)
    return small_trial(data, steps=5)


def pictured(config: TrialConfig, sentence: str | None) -> TrialConfig:
    return replace(config, train=replace(config.train, pictured_sentence=sentence))


def texts_by_set(config: TrialConfig, data: Path) -> tuple[dict[str, Any], Any]:
    """The texts that a trial keeps by set, and its last checkpoint."""
    trial = ToyTrial(config, data)
    work(trial)
    texts = {name: texts for name, _, texts, _ in trial.said("evaluated")}
    return texts, trial.checkpoints[config.train.steps].state


def test_it_adds_a_picture_and_changes_no_weight(config: TrialConfig, folder: Path) -> None:
    data = prepared_text(config.data, folder).folder
    plain, weights = texts_by_set(config, data)
    drawn, same_weights = texts_by_set(pictured(config, "a <b> c"), data)
    picture = drawn["dev"].pop(PICTURE)
    assert drawn == plain
    assert differing(leaves(same_weights), leaves(weights)) == []
    assert picture.startswith("<svg")
    assert "Encoder self-attention, layer 1 of 2" in picture
    assert "&lt;b&gt;" in picture


def test_it_is_refused_before_training_if_it_cannot_be_drawn(
    config: TrialConfig, folder: Path
) -> None:
    data = prepared_text(config.data, folder).folder
    too_long = pictured(config, "a " * 40)
    (problem,) = TRANSLATION.data_problems(too_long, data)
    assert str(problem.key) == "train.pictured_sentence"
    assert problem.found == "has 41 pieces, with end-of-sentence"
    assert problem.allowed == f"must have at most {SMALL.max_positions}, as model.max_positions"
    assert list(TRANSLATION.data_problems(pictured(config, "a b"), data)) == []
    (problem,) = TRANSLATION.data_problems(pictured(config, "a \udcff"), data)
    assert problem.found == "has bytes that are not UTF-8"
    (problem,) = TRANSLATION.problems(pictured(config, " "))
    assert (problem.key, problem.found) == ("train.pictured_sentence", "is empty")
