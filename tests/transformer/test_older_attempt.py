"""A worker that was cut off lives on while its successor trains: it saves nothing more."""

from pathlib import Path

import pytest
from small_trials import OWN, SMALL, assignment, copy_data, small_trial

from transformer.messages import Finished, Report
from transformer.training.checkpoint import CheckpointError
from transformer.worker import work


def saved(checkpoints: Path, attempt: int) -> set[str]:
    return {path.parent.name for path in checkpoints.glob(f"{OWN}/a{attempt}/*/manifest.json")}


def test_a_worker_of_an_older_attempt_saves_nothing_once_its_successor_trains(tmp_path: Path) -> None:
    data = copy_data(tmp_path, (60, 5, 5), "abcdef", longest=8, vocab_size=270)
    trial = small_trial(data, SMALL, steps=20, checkpoint_every=4, log_every=2, evaluate_every=50, keep_checkpoints=9)
    first = work(assignment(trial, 1, tmp_path, tmp_path / "kept"))
    for event in first:
        if isinstance(event, Report) and event.checkpoint is not None:
            break
    successor = list(work(assignment(trial, 2, tmp_path, tmp_path / "kept")))
    assert isinstance(successor[-1], Finished)
    before, newer = saved(tmp_path / "kept", 1), saved(tmp_path / "kept", 2)
    with pytest.raises(CheckpointError, match="attempt 2 owns"):
        list(first)
    assert (saved(tmp_path / "kept", 1), saved(tmp_path / "kept", 2)) == (before, newer)
    assert "step-20" in newer
