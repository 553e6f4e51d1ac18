"""BLEU and chrF while training: the right numbers at the right steps, and no trace in the weights."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_trials import DECODE, SMALL, copy_data, free_address, prepared_text, small_trial
from torch import Tensor
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.data.prepared import Prepared
from transformer.decoding.evaluation import SENTENCES, GreedyScores
from transformer.decoding.score import text_scores
from transformer.decoding.translator import Translator
from transformer.model.encoder_decoder import Transformer
from transformer.training.state import start
from transformer.training.worker_group import Worker
from transformer.work import work

GREEDY = {"dev_greedy/bleu", "dev_greedy/chrf"}
VOCABULARY = 270


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def trial(folder: Path) -> TrialConfig:
    """Dev has more sentences than are scored while training."""
    data = copy_data(folder, (60, SENTENCES + 10, 7), "abcdef", longest=8, vocab_size=VOCABULARY)
    dropped_out = replace(SMALL, p_drop=0.2, attention_dropout=0.1, relu_dropout=0.1)
    return small_trial(data, dropped_out, replace(DECODE, max_extra=2))


@pytest.fixture(scope="module")
def prepared(trial: TrialConfig, folder: Path) -> Prepared:
    return prepared_text(trial.data, folder)


def scoring(trial: TrialConfig, every: int) -> TrialConfig:
    return replace(trial, train=replace(trial.train, score_every=every))


def run(config: TrialConfig, prepared: Prepared) -> ToyTrial:
    trial = ToyTrial(config, prepared.folder)
    work(trial)
    return trial


def weights(trial: ToyTrial, step: int = 10) -> dict[str, Tensor]:
    state = trial.checkpoints[step].state
    moments = {f"{n}.{key}": of for n, each in state["optimizer"]["state"].items() for key, of in each.items()}
    return {**state["model"], **moments}


def model_of(trial: ToyTrial, step: int) -> Transformer:
    model = start(trial.config, VOCABULARY, torch.device("cpu")).model
    model.load_state_dict(trial.checkpoints[step].state["model"])
    return model


def assert_same_bits(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def greedy(trial: ToyTrial) -> dict[int, dict[str, float]]:
    """The scores of each step that has them."""
    found = {step: {name: of[name] for name in GREEDY & of.keys()} for step, of in trial.reports.items()}
    return {step: scores for step, scores in found.items() if scores}


def test_scores_come_at_their_steps_and_at_the_end_and_change_no_weight(trial: TrialConfig, prepared: Prepared) -> None:
    plain, scored = run(trial, prepared), run(scoring(trial, 7), prepared)
    assert greedy(plain) == {}
    assert {step: set(scores) for step, scores in greedy(scored).items()} == {7: GREEDY, 10: GREEDY}
    assert_same_bits(weights(scored), weights(plain))
    assert scored.said("evaluated") == plain.said("evaluated") != []


def test_a_stop_request_of_one_worker_waits_for_the_scores(trial: TrialConfig, prepared: Prepared) -> None:
    told = ToyTrial(scoring(trial, 7), prepared.folder, stops_alone=True)
    work(told)
    assert greedy(told) == greedy(run(scoring(trial, 7), prepared))
    assert told.said("evaluated") == []


@pytest.fixture(scope="module")
def learner(trial: TrialConfig) -> TrialConfig:
    """A trial after which some words are right."""
    model = replace(SMALL, n_layers=1, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16)
    train = replace(trial.train, steps=80, warmup_steps=40, lr_factor=0.7, tokens_per_batch=300, score_every=40)
    return replace(trial, model=model, train=replace(train, evaluate_every=80, checkpoint_every=80))


def test_a_score_is_that_of_greedy_translations_of_the_first_dev_sentences(
    learner: TrialConfig, prepared: Prepared
) -> None:
    trial = run(learner, prepared)
    found = greedy(trial)
    translator = Translator(
        model_of(trial, 80).eval(), prepared.vocabulary, replace(learner.decode, beam=1), learner.train.precision
    )
    hypotheses = translator.translate(prepared.sources("dev")[:SENTENCES])
    expected, _ = text_scores(hypotheses, prepared.references("dev")[:SENTENCES], learner.data.target)
    assert found[80] == {"dev_greedy/bleu": expected["bleu"], "dev_greedy/chrf": expected["chrf"]}
    assert list(found) == [40, 80]
    assert found[80]["dev_greedy/chrf"] > found[40]["dev_greedy/chrf"]


def be_one_of_two(rank: int, folder: Path, data: Path, config: TrialConfig, addresses: list[str]) -> None:
    """Trains without scores, then with them, as worker ``rank``."""
    for every, address in zip((0, 2), addresses, strict=True):
        trial = ToyTrial(scoring(config, every), data, rank, 2, address)
        work(trial)
        torch.save(trial, folder / f"trial-{every}-{rank}.pt")


def test_two_workers_score_as_one_and_change_no_weight(
    trial: TrialConfig, prepared: Prepared, tmp_path: Path, as_two_workers: Callable[..., None]
) -> None:
    even = replace(trial, train=replace(trial.train, steps=4, checkpoint_every=4))
    as_two_workers(be_one_of_two, tmp_path, prepared.folder, even, [free_address(), free_address()])
    plain, scored, other = (torch.load(tmp_path / f"trial-{of}.pt", weights_only=False) for of in ("0-0", "2-0", "2-1"))
    assert_same_bits(weights(scored, step=4), weights(plain, step=4))
    assert greedy(other) == {}
    assert set(greedy(scored)) == {2, 4}
    assert greedy(scored)[4] == GreedyScores.of(even, prepared, Worker())(model_of(scored, 4))
