"""The mean of the last checkpoints: an interrupted trial averages the same steps, or stops with the cause."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_trials import DECODE, KEY, OWN, SMALL, assignment, copy_data, small_trial
from torch import Tensor

from transformer.config import TrialConfig
from transformer.data.prepare import prepare
from transformer.decoding.load import load
from transformer.messages import Event, Finished, Report, Stopped
from transformer.training.checkpoint import CheckpointError, Checkpoints
from transformer.training.parallel import never
from transformer.worker import work

STEPS, EVERY, AVERAGE = 13, 3, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("copies")


@pytest.fixture(scope="module")
def trial(folder: Path) -> TrialConfig:
    """Evaluations between the checkpoints' steps, some of them the best so far."""
    data = copy_data(folder, (60, 12, 7), "abcdef", longest=8, vocab_size=270)
    often: dict[str, Any] = {
        "steps": STEPS,
        "checkpoint_every": EVERY,
        "evaluate_every": 5,
        "keep_checkpoints": AVERAGE,
    }
    return small_trial(
        data, replace(SMALL, p_drop=0.1), replace(DECODE, average_checkpoints=AVERAGE), warmup_steps=100, **often
    )


@pytest.fixture(scope="module")
def uninterrupted(trial: TrialConfig, folder: Path) -> Finished:
    return finished(list(work(assignment(trial, 1, folder, folder / "uninterrupted"))))


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


def stop_at(step: int) -> Callable[[], bool]:
    """A single worker checks once after each step, and an attempt may start at any step."""
    left = iter(range(step))
    return lambda: next(left, None) is None


def stopped(trial: TrialConfig, folder: Path, checkpoints: Path, steps: list[int]) -> list[Event]:
    """The events of the last attempt of a trial that was stopped after each of these steps."""
    before = 0
    for attempt, step in enumerate(steps, 1):
        events = list(work(assignment(trial, attempt, folder, checkpoints), stop=stop_at(step - before - 1)))
        assert events[-1] == Stopped(step)
        assert (checkpoints / OWN / f"a{attempt}" / f"step-{step}" / "manifest.json").is_file()
        before = step
    return list(work(assignment(trial, len(steps) + 1, folder, checkpoints)))


def killed(trial: TrialConfig, folder: Path, checkpoints: Path, steps: list[int]) -> list[Event]:
    """The same for a trial that died after the reports of these steps."""
    for attempt, step in enumerate(steps, 1):
        for event in work(assignment(trial, attempt, folder, checkpoints)):
            if isinstance(event, Report) and event.step == step:
                break
    return list(work(assignment(trial, len(steps) + 1, folder, checkpoints)))


def kept(checkpoints: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in checkpoints.glob(f"{OWN}/a*/step-*"))


def averaged(trial: TrialConfig, folder: Path, checkpoints: Path) -> dict[str, Tensor]:
    """The weights for the scores of a finished trial."""
    vocabulary = prepare(trial.data, folder).vocabulary
    found = load(trial, vocabulary, Checkpoints(str(checkpoints), KEY, 99, 1), STEPS, torch.device("cpu"))
    return found.model.state_dict()


def assert_as_uninterrupted(
    trial: TrialConfig, folder: Path, checkpoints: Path, end: Finished, other: Finished
) -> None:
    assert end.scores == other.scores
    expected = averaged(trial, folder, folder / "uninterrupted")
    for name, weight in averaged(trial, folder, checkpoints).items():
        assert torch.equal(weight, expected[name]), name
    assert kept(checkpoints) == kept(folder / "uninterrupted")


@pytest.mark.parametrize("steps", [[10], [2, 4, 5, 7, 10, 11]], ids=str)
def test_a_stopped_trial_is_scored_with_the_weights_of_an_uninterrupted_one(
    trial: TrialConfig, folder: Path, tmp_path: Path, uninterrupted: Finished, steps: list[int]
) -> None:
    end = finished(stopped(trial, folder, tmp_path, steps))
    assert_as_uninterrupted(trial, folder, tmp_path, end, uninterrupted)


@pytest.mark.parametrize("steps", [[6, 10, 12]], ids=str)
def test_a_trial_that_died_is_scored_with_the_weights_of_an_uninterrupted_one(
    trial: TrialConfig, folder: Path, tmp_path: Path, uninterrupted: Finished, steps: list[int]
) -> None:
    end = finished(killed(trial, folder, tmp_path, steps))
    assert_as_uninterrupted(trial, folder, tmp_path, end, uninterrupted)


def flip(place: Path) -> None:
    content = bytearray((place / "state.pt").read_bytes())
    content[len(content) // 2] ^= 1
    (place / "state.pt").write_bytes(bytes(content))


@pytest.mark.parametrize(("harm", "said"), [(flip, r" \(.*/a1/step-9: .*checksum.*\)"), (shutil.rmtree, "")])
def test_a_damaged_checkpoint_stops_the_trial_and_is_not_replaced(
    trial: TrialConfig, folder: Path, tmp_path: Path, harm: Callable[[Path], None], said: str
) -> None:
    stop = list(work(assignment(trial, 1, folder, tmp_path), stop=stop_at(10)))
    assert stop[-1] == Stopped(11)
    assert kept(tmp_path) == [5, 6, 9, 10, 11]
    harm(tmp_path / OWN / "a1" / "step-9")
    refusal = (
        rf"decode.average_checkpoints: is 4; must be at most 3, .* kept: the checkpoint of step 9 is missing{said}\.$"
    )
    for attempt in (2, 3):
        with pytest.raises(CheckpointError, match=refusal):
            list(work(assignment(trial, attempt, folder, tmp_path), stop=never))
    fewer = replace(trial, decode=replace(DECODE, average_checkpoints=3))
    assert finished(list(work(assignment(fewer, 4, folder, tmp_path)))).scores


@pytest.mark.parametrize(
    ("steps", "every", "written"), [(600, 200, 3), (601, 200, 4), (200, 200, 1), (10, 200, 1), (1, 1, 1), (9, 1, 9)]
)
def test_no_more_checkpoints_may_be_averaged_than_a_trial_writes(steps: int, every: int, written: int) -> None:
    def problems(average: int) -> list[str]:
        often: dict[str, Any] = {"steps": steps, "checkpoint_every": every, "keep_checkpoints": 20}
        return [
            str(problem)
            for problem in small_trial(decode=replace(DECODE, average_checkpoints=average), **often).problems()
        ]

    found, settings = (
        f"decode.average_checkpoints: is {written + 1}",
        f"train.steps={steps} and train.checkpoint_every={every}",
    )
    assert problems(written) == []
    assert problems(written + 1) == [f"{found}; must be at most {written}, the number of checkpoints with {settings}."]
