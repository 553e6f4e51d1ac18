"""BLEU and chrF while training: the right numbers at the right steps, and no trace in the weights."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_trials import DECODE, OWN, SMALL, assignment, copy_data, free_address, small_trial
from torch import Tensor

from transformer.config import TrialConfig
from transformer.data.prepare import prepare
from transformer.decoding.greedy_scores import SENTENCES, GreedyScores
from transformer.decoding.score import text_scores
from transformer.decoding.translate import Translator
from transformer.messages import Event, Finished, Report
from transformer.training.parallel import Worker
from transformer.training.train import start
from transformer.worker import work

GREEDY = {"dev_greedy/bleu", "dev_greedy/chrf"}
VOCABULARY = 270
Run = tuple[Path, list[Event]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def trial(folder: Path) -> TrialConfig:
    """Dev has more sentences than are scored while training."""
    data = copy_data(folder, (60, SENTENCES + 10, 7), "abcdef", longest=8, vocab_size=VOCABULARY)
    dropped_out = replace(SMALL, p_drop=0.2, attention_dropout=0.1, relu_dropout=0.1)
    return small_trial(data, dropped_out, replace(DECODE, max_extra=2))


def scoring(trial: TrialConfig, every: int) -> TrialConfig:
    return replace(trial, train=replace(trial.train, score_every=every))


def run(trial: TrialConfig, folder: Path, checkpoints: Path, attempt: int = 1, checks: int = 10**9) -> list[Event]:
    """One attempt, which is asked to stop at its check number ``checks``."""
    left = iter(range(checks - 1))
    return list(work(assignment(trial, attempt, folder, checkpoints), stop=lambda: next(left, None) is None))


def weights(checkpoints: Path, attempt: int = 1, step: int = 10) -> dict[str, Tensor]:
    state = torch.load(checkpoints / OWN / f"a{attempt}" / f"step-{step}" / "state.pt", weights_only=True)
    moments = {f"{n}.{key}": of for n, each in state["optimizer"]["state"].items() for key, of in each.items()}
    return {**state["model"], **moments}


def assert_same_bits(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def greedy(events: list[Event]) -> dict[int, dict[str, float]]:
    """The scores of each step that has them."""
    reports = [event for event in events if isinstance(event, Report)]
    found = {each.step: {name: each.metrics[name] for name in GREEDY & each.metrics.keys()} for each in reports}
    return {step: scores for step, scores in found.items() if scores}


@pytest.fixture(scope="module")
def without(trial: TrialConfig, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("without")
    return place, run(trial, folder, place)


@pytest.fixture(scope="module")
def watched(trial: TrialConfig, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    place = tmp_path_factory.mktemp("watched")
    return place, run(scoring(trial, 7), folder, place)


def test_scores_come_at_their_steps_and_at_the_end_and_change_no_weight(without: Run, watched: Run) -> None:
    (plain, unscored), (place, scored) = without, watched
    assert greedy(unscored) == {}
    assert {step: set(scores) for step, scores in greedy(scored).items()} == {7: GREEDY, 10: GREEDY}
    assert_same_bits(weights(place), weights(plain))
    assert isinstance(scored[-1], Finished)
    assert isinstance(unscored[-1], Finished)
    assert scored[-1].scores == unscored[-1].scores


@pytest.fixture(scope="module")
def learner(trial: TrialConfig) -> TrialConfig:
    """A trial after which some words are right."""
    model = replace(SMALL, n_layers=1, d_model=64, d_ff=128, n_heads=4, d_k=16, d_v=16)
    train = replace(trial.train, steps=80, warmup_steps=40, lr_factor=0.7, tokens_per_batch=300, score_every=40)
    return replace(trial, model=model, train=replace(train, evaluate_every=80, checkpoint_every=80))


def test_a_score_is_that_of_greedy_translations_of_the_first_dev_sentences(
    learner: TrialConfig, folder: Path, tmp_path: Path
) -> None:
    found, prepared = greedy(run(learner, folder, tmp_path)), prepare(learner.data, folder)
    model = start(learner, VOCABULARY, torch.device("cpu")).model
    model.load_state_dict(torch.load(tmp_path / OWN / "a1/step-80/state.pt", weights_only=True)["model"])
    translator = Translator(model.eval(), prepared.vocabulary, replace(learner.decode, beam=1), "fp32")
    hypotheses = translator.translate(prepared.sources("dev")[:SENTENCES])
    expected, _ = text_scores(hypotheses, prepared.references("dev")[:SENTENCES], learner.data.target)
    assert found[80] == {"dev_greedy/bleu": expected["bleu"], "dev_greedy/chrf": expected["chrf"]}
    assert list(found) == [40, 80]
    assert found[80]["dev_greedy/chrf"] > found[40]["dev_greedy/chrf"]


def be_one_of_two(rank: int, folder: Path, trial: TrialConfig, addresses: list[str]) -> None:
    """Trains without scores, then with them, as worker ``rank``."""
    for every, address in zip((0, 2), addresses, strict=True):
        assigned = assignment(scoring(trial, every), 1, folder, folder / f"two-{every}")
        torch.save(list(work(assigned, rank, 2, address)), folder / f"events-{every}-{rank}.pt")


def test_two_workers_score_as_one_and_change_no_weight(
    trial: TrialConfig, folder: Path, as_two_workers: Callable[..., None]
) -> None:
    """One worker trains to the same scores only without dropout, which each worker draws for itself."""
    even = replace(trial, model=replace(SMALL, p_drop=0.0), train=replace(trial.train, steps=4, checkpoint_every=4))
    prepare(even.data, folder)
    as_two_workers(be_one_of_two, folder, even, [free_address(), free_address()])
    assert_same_bits(weights(folder / "two-2", step=4), weights(folder / "two-0", step=4))
    scored, other = (torch.load(folder / f"events-2-{rank}.pt", weights_only=False) for rank in (0, 1))
    assert other == []
    assert set(greedy(scored)) == {2, 4}
    model = start(even, VOCABULARY, torch.device("cpu")).model
    model.load_state_dict(torch.load(folder / "two-2" / OWN / "a1/step-4/state.pt", weights_only=True)["model"])
    assert greedy(scored)[4] == GreedyScores.of(even, prepare(even.data, folder), Worker())(model)
