"""Real processes joined by gloo give the same results as one process."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_trials import (
    DECODE,
    SMALL,
    copy_data,
    damaged_model,
    free_address,
    prepared_text,
    random_pairs,
    small_trial,
)
from toy_trial import ToyTrial

from transformer.config import TrialConfig
from transformer.data.batches import collate
from transformer.data.prepared import Prepared
from transformer.decoding.evaluation import EvaluationSet, evaluate_set, translate_set
from transformer.decoding.translator import Translator
from transformer.faults import NotFiniteError
from transformer.training import worker_group as parallel
from transformer.training.loss import likelihoods, mean_nll, token_accuracy
from transformer.training.state import DisagreementError, compare, start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import StopRequested, Worker, pick_device
from transformer.work import work

PAIRS = random_pairs(60, longest=12)
BATCHES = {  # sentences and micro-batches
    "many": (range(9), 1),
    "one": ([4], 1),  # the second worker's share is empty
    "in two micro-batches": (range(9), 2),
    "in two micro-batches, some empty": ([4, 5, 6], 2),  # the second worker's last one
}


def first_gradients(
    trial: TrialConfig, worker: Worker, sentences: Sequence[int], micro_batches: int
) -> dict[str, torch.Tensor]:
    """Gradients of a batch of these sentences, from Adam's first moment, which is a tenth of
    them."""
    state = start(trial, 30, worker.device)
    parts = [worker.rank + worker.world * i for i in range(micro_batches)]
    shares = [
        collate(PAIRS, np.array(sentences), part, worker.world * micro_batches) for part in parts
    ]
    train_step(state, shares, trial, worker, make_forward_backward(state.model, trial))
    return {
        name: state.optimizer.state[p]["exp_avg"] / 0.1
        for name, p in state.model.named_parameters()
    }


def raised(error_type: type[Exception], call: Callable[..., object], *arguments: object) -> str:
    """What is said when this worker leaves a call; all workers leave together, or the next one
    would wait for ever."""
    try:
        call(*arguments)
    except error_type as error:
        return f"{error_type.__name__}: {error}"
    return ""


def results(worker: Worker, prepared: Prepared, trial: TrialConfig) -> dict[str, Any]:
    """This worker's results. At the end one worker alone finds NaN, starts with other weights, and
    is told to stop."""
    dev = prepared.pairs("dev").source
    vocabulary = prepared.vocabulary
    model = start(trial, 270, worker.device).model.eval()
    evaluated = EvaluationSet.of(prepared, "dev", trial)
    translator = Translator(model, vocabulary, trial.decode, "fp32")
    damaged = Translator(damaged_model(270, int(dev.lengths.max()) - 1), vocabulary, DECODE, "fp32")
    other_trial = replace(trial, train=replace(trial.train, seed=1 + worker.rank))
    stopped_worker = replace(worker, stop=lambda: worker.rank == 1)
    sentences = likelihoods(model, PAIRS, "fp32", worker)
    return {
        **{name: first_gradients(trial, worker, *batch) for name, batch in BATCHES.items()},
        "translations": translate_set(translator, dev, worker),
        "evaluated": evaluate_set(translator, evaluated, worker),
        "nll": mean_nll(sentences, PAIRS),
        "accuracy": token_accuracy(sentences, PAIRS),
        "lost": raised(NotFiniteError, translate_set, damaged, dev, worker),
        "disagreement": raised(
            DisagreementError, compare, start(other_trial, 30, worker.device), worker
        ),
        "left": raised(StopRequested, evaluate_set, translator, evaluated, stopped_worker),
    }


def be_a_worker(
    rank: int, folder: Path, prepared: Prepared, single: ToyTrial, addresses: list[str]
) -> None:
    torch.set_num_threads(1)
    trial = single.config
    worker = Worker(rank, 2, tokens_per_micro_batch=100)
    with (
        pytest.MonkeyPatch.context() as patch,
        ToyTrial(trial, Path(), rank, 2, addresses[0]).process_group(),
    ):
        # several buckets, although the model is small
        patch.setattr(parallel, "BUCKET_BYTES", 3000)
        torch.save(results(worker, prepared, trial), folder / f"results-{rank}.pt")
    toy = single.again(died_after=2, rank=rank, world=2, address=addresses[1])
    work(toy)
    torch.save(toy, folder / f"trial-{rank}.pt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workers")


@pytest.fixture(scope="module")
def trial(folder: Path) -> TrialConfig:
    data = copy_data(folder, (60, 21, 7), "abcdef", longest=8, vocab_size=270)
    return small_trial(data, SMALL, steps=4, evaluate_every=2, checkpoint_every=2)


@pytest.fixture(scope="module")
def prepared(folder: Path, trial: TrialConfig) -> Prepared:
    return prepared_text(trial.data, folder)


@pytest.fixture(scope="module")
def single(prepared: Prepared, trial: TrialConfig) -> ToyTrial:
    """A whole trial of one worker."""
    toy = ToyTrial(trial, prepared.folder)
    work(toy)
    return toy


@pytest.fixture(scope="module")
def together(
    folder: Path, prepared: Prepared, single: ToyTrial, as_two_workers: Callable[..., None]
) -> list[tuple[dict[str, Any], ToyTrial]]:
    """The results of each of two workers, and each worker's side of a trial."""
    as_two_workers(be_a_worker, folder, prepared, single, [free_address(), free_address()])
    workers = []
    for rank in (0, 1):
        results = torch.load(folder / f"results-{rank}.pt", weights_only=False)
        trial = torch.load(folder / f"trial-{rank}.pt", weights_only=False)
        workers.append((results, trial))
    return workers


@pytest.fixture(scope="module")
def found(together: list[tuple[dict[str, Any], ToyTrial]]) -> list[dict[str, Any]]:
    return [results for results, _ in together]


@pytest.fixture(scope="module")
def alone(prepared: Prepared, trial: TrialConfig) -> dict[str, Any]:
    return results(Worker(tokens_per_micro_batch=100), prepared, trial)


@pytest.mark.parametrize("batch", BATCHES)
def test_two_workers_hold_the_gradients_of_one_and_both_the_same_bits(
    found: list[dict[str, Any]], alone: dict[str, Any], batch: str
) -> None:
    total_norm = torch.cat([gradient.flatten() for gradient in alone[batch].values()]).norm()
    for name, expected in alone[batch].items():
        mine, theirs = (results[batch][name] for results in found)
        assert torch.equal(mine, theirs)
        assert (mine - expected).norm() <= 1e-6 * max(
            expected.norm().item(), 1e-2 * total_norm.item()
        ), name


def test_a_worker_whose_gpu_is_lost_does_not_train_on_the_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CUDA then sees none. A worker without an assigned one takes the CPU, and so does any build
    without CUDA."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for cuda, visible in (("13.0", ""), ("13.0", "-1"), (None, "0")):
        monkeypatch.setattr(torch.version, "cuda", cuda)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert pick_device().type == "cpu"
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        pick_device()


def test_two_workers_evaluate_and_translate_as_one(
    found: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    for result in found:
        assert result["nll"] == pytest.approx(alone["nll"], rel=1e-6)
        assert result["accuracy"] == alone["accuracy"]
        assert result["translations"] == alone["translations"]
    assert found[0]["evaluated"] == alone["evaluated"]
    assert found[1]["evaluated"] is None


def test_two_workers_go_on_with_a_trial_of_one_and_end_like_it(
    together: list[tuple[dict[str, Any], ToyTrial]], single: ToyTrial
) -> None:
    (_, first), (_, second) = together
    assert list(first.reports) == list(second.reports) == [4]
    for name in ("train/loss", "dev/nll", "train/learning_rate"):
        assert first.reports[4][name] == pytest.approx(single.reports[4][name], rel=1e-4)
    assert first.said("spent") == single.said("spent")
    assert second.said("evaluated") == []
    for (name, scores, *_), (other_name, expected, *_) in zip(
        first.said("evaluated"), single.said("evaluated"), strict=True
    ):
        assert name == other_name
        assert scores["nll"] == pytest.approx(expected["nll"], rel=1e-4)


def test_nan_other_weights_or_a_stop_on_one_worker_ends_all_of_them(
    found: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    assert found[0]["lost"] == found[1]["lost"] == alone["lost"] != ""
    assert found[0]["disagreement"] == found[1]["disagreement"]
    assert "rank 0 step 0" in found[0]["disagreement"]
    assert [result["left"] for result in (*found, alone)] == ["StopRequested: "] * 2 + [""]
