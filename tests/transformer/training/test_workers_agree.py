"""Rank zero reads the checkpoint and the other workers receive it, or none of them starts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from small_trials import DECODE, KEY, OWN, assignment, copy_data, free_address, random_pairs, share, small_trial

from transformer.config import TrialConfig
from transformer.data.batches import TrainingBatches
from transformer.data.prepare import prepare
from transformer.messages import Event, Finished, Noticed, Report, Resumed
from transformer.processes import storage
from transformer.training.broadcast import from_rank_zero
from transformer.training.checkpoint import Checkpoints
from transformer.training.parallel import Worker, join
from transformer.training.resume import compare, digest, resume
from transformer.training.train import TrainState, make_forward_backward, start, train_step
from transformer.worker import work

TRIAL = small_trial(steps=30)
BATCHES = TrainingBatches(random_pairs(60, longest=12), TRIAL.train.tokens_per_batch, TRIAL.model.max_positions, 1)
CPU = torch.device("cpu")
PLAIN: dict[str, Any] = {
    "tensors": [torch.arange(6).view(2, 3), torch.tensor(2.5), torch.ones(3, dtype=torch.bfloat16), torch.empty(0, 4)],
    "transposed": torch.arange(6.0).view(2, 3).T,
    "rest": (1, "two", None, True, {"three": 3.5}),
}


class Silent(MemoryFileSystem):  # type: ignore[misc]
    """An unreachable server."""

    protocol = "silent"

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        raise ConnectionError("the server has gone\naway")


def fresh() -> TrainState:
    return start(TRIAL, 30, CPU)


def save(url: str, *steps: int) -> None:
    """Checkpoints of a first attempt of one worker."""
    state, checkpoints = fresh(), Checkpoints(url, KEY, 1, keep=9)
    for step in range(1, max(steps) + 1):
        train_step(state, [share(BATCHES, step)], TRIAL, Worker(), make_forward_backward(state.model, TRIAL))
        if step in steps:
            checkpoints.save(step, state.to_dict())
    checkpoints.wait()


def own(folder: Path, rank: int) -> str:
    """This worker's folder of checkpoints."""
    return str(folder / f"own-{rank}")


def resumes(worker: Worker, folder: Path) -> Any:
    """Step and digest of this worker after its resume, and its notices."""
    state, checkpoints = fresh(), Checkpoints(own(folder, worker.rank), KEY, 2, keep=9)
    found = resume(state, TRIAL.train.steps, checkpoints, worker)
    return found, state.step, digest(state), checkpoints.notices()


def finds_none(worker: Worker, folder: Path) -> Any:
    state, checkpoints = fresh(), Checkpoints(str(folder / f"none-{worker.rank}"), KEY, 2, keep=9)
    return resume(state, TRIAL.train.steps, checkpoints, worker), state.step, digest(state)


def meets_silence(worker: Worker, folder: Path) -> Any:
    fsspec.register_implementation("silent", Silent, clobber=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "PATIENCE_S", 0.0)
        return resume(fresh(), TRIAL.train.steps, Checkpoints("silent://trial", KEY, 2, keep=9), worker)


def begins_with_other_weights(worker: Worker, folder: Path) -> Any:
    trial = replace(TRIAL, train=replace(TRIAL.train, seed=worker.rank))
    compare(start(trial, 30, CPU), worker)


def holds_another_moment(worker: Worker, folder: Path) -> Any:
    state = fresh()
    train_step(state, [share(BATCHES, 1)], TRIAL, Worker(), make_forward_backward(state.model, TRIAL))
    if worker.rank == 1:
        next(iter(state.optimizer.state.values()))["exp_avg"].view(-1)[0] += 1e-6
    compare(state, worker)


def stands_at_another_step(worker: Worker, folder: Path) -> Any:
    state = fresh()
    state.step = 400 - 200 * worker.rank
    compare(state, worker)


def is_given_plain_values(worker: Worker, folder: Path) -> Any:
    return from_rank_zero(worker, lambda: PLAIN if worker.is_rank_zero else pytest.fail("only rank zero may call it"))


CASES: list[Callable[[Worker, Path], Any]] = [
    resumes,
    finds_none,
    meets_silence,
    begins_with_other_weights,
    holds_another_moment,
    stands_at_another_step,
    is_given_plain_values,
]


def be_one_of_two(rank: int, folder: Path, trial: TrialConfig, addresses: list[str]) -> None:
    found: dict[str, Any] = {}
    with join(rank, 2, addresses[0], threads=1, tokens_per_micro_batch=1000) as worker:
        for case in CASES:
            try:
                found[case.__name__] = case(worker, folder)
            except Exception as error:
                found[case.__name__] = f"{type(error).__name__}: {error}"
    assigned = assignment(trial, 2, folder, folder / f"trial-{rank}")
    found["events"] = list(work(assigned, rank, 2, addresses[1]))
    torch.save(found, folder / f"found-{rank}.pt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("agree")


@pytest.fixture(scope="module")
def trial(folder: Path) -> TrialConfig:
    """A trial scored with the mean of two checkpoints."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    return small_trial(data, decode=replace(DECODE, average_checkpoints=2))


@pytest.fixture(scope="module")
def first_attempt(folder: Path, trial: TrialConfig) -> list[Event]:
    """A finished attempt of one worker; rank zero gets its first checkpoint, the other worker its last."""
    events = list(work(assignment(trial, 1, folder, folder / "alone")))
    for rank, step in enumerate((5, 10)):
        place = f"{OWN}/a1/step-{step}"
        (folder / f"trial-{rank}" / place).parent.mkdir(parents=True)
        (folder / "alone" / place).rename(folder / f"trial-{rank}" / place)
    return events


@pytest.fixture(scope="module")
def found(
    folder: Path, trial: TrialConfig, first_attempt: list[Event], as_two_workers: Callable[..., None]
) -> list[dict[str, Any]]:
    """The results of two workers with different folders of checkpoints."""
    prepare(trial.data, folder)
    save(own(folder, 0), 2, 4, 6)
    save(own(folder, 1), 2)
    state = Path(own(folder, 0)) / OWN / "a1" / "step-6" / "state.pt"
    state.write_bytes(state.read_bytes()[:-1])
    (Path(own(folder, 1)) / OWN / "a1" / "step-9").mkdir()
    (Path(own(folder, 1)) / OWN / "a1" / "step-9" / "manifest.json").write_text("would be reported if it were read")
    as_two_workers(be_one_of_two, folder, trial, [free_address(), free_address()])
    return [torch.load(folder / f"found-{rank}.pt", weights_only=False) for rank in (0, 1)]


def test_all_workers_resume_from_rank_zero_s_checkpoint(found: list[dict[str, Any]], folder: Path) -> None:
    zero, one = (each["resumes"] for each in found)
    expected = fresh()
    (saved,) = Checkpoints(own(folder, 0), KEY, 2, keep=9).last(1, up_to=4)
    expected.load(saved)
    assert zero[:3] == one[:3] == (True, 4, digest(expected))
    assert [line.split(": ")[0] for line in zero[3]] == [f"{own(folder, 0)}/{OWN}/a1/step-6"]
    assert one[3] == []


def test_without_a_checkpoint_all_workers_start_with_the_same_weights(found: list[dict[str, Any]]) -> None:
    zero, one = (each["finds_none"] for each in found)
    assert zero == one == (False, 0, digest(fresh()))


def test_an_error_of_rank_zero_stops_all_workers(found: list[dict[str, Any]]) -> None:
    zero, one = (each["meets_silence"] for each in found)
    assert zero == f"StorageError: silent://trial/{OWN}: the server has gone; check that it can be reached"
    assert one == f"RankZeroError: rank zero stopped: {zero}"


@pytest.mark.parametrize("case", [begins_with_other_weights, holds_another_moment, stands_at_another_step])
def test_workers_with_different_states_do_not_start(found: list[dict[str, Any]], case: Any) -> None:
    zero, one = (each[case.__name__] for each in found)
    assert zero == one
    assert zero.startswith("DisagreementError: the workers start from different states: rank 0 step ")
    assert ", rank 1 step " in zero
    assert "\n" not in zero


def test_the_message_names_steps_and_digests(found: list[dict[str, Any]]) -> None:
    weights = digest(fresh())[:12]
    expected = f"rank 0 step 400 ({weights}), rank 1 step 200 ({weights}); give all workers the same code"
    assert expected in found[0]["stands_at_another_step"]


def test_plain_values_and_tensors_arrive_as_they_were_sent(found: list[dict[str, Any]]) -> None:
    for each in found:
        given = each["is_given_plain_values"]
        assert given["rest"] == PLAIN["rest"]
        tensors = [*given["tensors"], given["transposed"]]
        for tensor, expected in zip(tensors, [*PLAIN["tensors"], PLAIN["transposed"]], strict=True):
            assert tensor.dtype == expected.dtype
            assert torch.equal(tensor, expected)


def test_a_trial_whose_workers_see_different_folders_ends_like_one_with_a_single_worker(
    found: list[dict[str, Any]], first_attempt: list[Event]
) -> None:
    events, silent = (each["events"] for each in found)
    assert silent == []
    assert [event.step for event in events if isinstance(event, Resumed)] == [5]
    assert [event.step for event in events if isinstance(event, Report)] == [10]
    assert not any(isinstance(event, Noticed) for event in events)
    end, expected = events[-1], first_attempt[-1]
    assert isinstance(end, Finished)
    assert isinstance(expected, Finished)
    for name, scores in expected.scores.items():
        assert end.scores[name]["nll"] == pytest.approx(scores["nll"], rel=1e-4)
