"""BLEU and chrF while training: the right numbers at the right steps, and no trace in the weights."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_trials import DECODE, SMALL, copy_data, prepared_text, small_trial
from torch import Tensor
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.data.prepared import Prepared
from transformer.decoding.evaluation import SENTENCES
from transformer.decoding.score import text_scores
from transformer.decoding.translator import Translator
from transformer.training.state import start
from transformer.work import work

GREEDY = {"dev_greedy/bleu", "dev_greedy/chrf"}
STEPS = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def config(folder: Path) -> TrialConfig:
    """A trial after which some words are right; dev has more sentences than are scored while training."""
    data = copy_data(folder, (60, SENTENCES + 10, 7), "abcdef", longest=8, vocab_size=270)
    model = replace(SMALL, n_layers=1, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16, p_drop=0.1)
    often = {"steps": STEPS, "evaluate_every": STEPS, "checkpoint_every": STEPS, "warmup_steps": 30}
    return small_trial(data, model, replace(DECODE, max_extra=2), tokens_per_batch=300, **often)


@pytest.fixture(scope="module")
def prepared(config: TrialConfig, folder: Path) -> Prepared:
    return prepared_text(config.data, folder)


def scoring(config: TrialConfig, every: int) -> TrialConfig:
    return replace(config, train=replace(config.train, score_every=every))


@pytest.fixture(scope="module")
def plain(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    return worked(ToyTrial(config, prepared.folder))


@pytest.fixture(scope="module")
def scored(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    return worked(ToyTrial(scoring(config, 40), prepared.folder))


def worked(trial: ToyTrial) -> ToyTrial:
    work(trial)
    return trial


def greedy(trial: ToyTrial) -> dict[int, dict[str, float]]:
    """The scores of each step that has them."""
    found = {step: {name: of[name] for name in GREEDY & of.keys()} for step, of in trial.reports.items()}
    return {step: scores for step, scores in found.items() if scores}


def weights(trial: ToyTrial) -> dict[str, Tensor]:
    found: dict[str, Tensor] = trial.checkpoints[max(trial.checkpoints)].state["model"]
    return found


def assert_same_bits(first: ToyTrial, second: ToyTrial) -> None:
    assert all(torch.equal(weight, weights(second)[name]) for name, weight in weights(first).items())


def test_scores_come_at_their_steps_and_at_the_end_and_change_no_weight(plain: ToyTrial, scored: ToyTrial) -> None:
    assert greedy(plain) == {}
    assert {step: set(scores) for step, scores in greedy(scored).items()} == {40: GREEDY, STEPS: GREEDY}
    assert_same_bits(scored, plain)
    assert scored.said("evaluated") == plain.said("evaluated") != []


def test_a_score_is_that_of_greedy_translations_of_the_first_dev_sentences(
    config: TrialConfig, prepared: Prepared, scored: ToyTrial
) -> None:
    model = start(config, 270, torch.device("cpu")).model
    model.load_state_dict(weights(scored))
    translator = Translator(model.eval(), prepared.vocabulary, replace(config.decode, beam=1), "fp32")
    hypotheses = translator.translate(prepared.sources("dev")[:SENTENCES])
    expected, _ = text_scores(hypotheses, prepared.references("dev")[:SENTENCES], config.data.target)
    assert greedy(scored)[STEPS] == {f"dev_greedy/{name}": expected[name] for name in ("bleu", "chrf")}
    assert greedy(scored)[STEPS]["dev_greedy/chrf"] > 5


def test_a_stop_request_of_one_worker_waits_for_the_scores(scored: ToyTrial) -> None:
    told = worked(ToyTrial(scored.config, scored.data, stops_alone=True))
    assert greedy(told) == greedy(scored)
    assert told.said("evaluated") == []
