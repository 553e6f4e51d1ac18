"""The newest attempt owns a trial's checkpoints; a worker that was cut off writes and removes nothing more."""

from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from transformer.processes.owner import NAME, Owner, SupersededError
from transformer.processes.storage import storage_fault
from transformer.training.checkpoint import CheckpointError, Checkpoints

KEY = "ab" * 32


def owner(root: Path, attempt: int, run: str = "r") -> Owner:
    return Owner(fsspec.filesystem("file"), str(root), attempt, run)


def test_the_last_claim_counts(tmp_path: Path) -> None:
    first, second = owner(tmp_path, 1), owner(tmp_path, 2)
    first.check()
    first.claim()
    first.check()
    second.claim()
    second.check()
    with pytest.raises(SupersededError, match=f"attempt 2 owns {tmp_path}, so attempt 1 ends"):
        first.check()
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def test_a_claim_that_is_gone_is_a_fault_of_the_storage(tmp_path: Path) -> None:
    """Such as a folder whose disk was unmounted: what is written there would be missing later."""
    first = owner(tmp_path, 1)
    first.claim()
    (tmp_path / NAME).unlink()
    with pytest.raises(OSError, match="the claim of this attempt is gone") as caught:
        first.check()
    assert storage_fault(caught.value, "") is not None, "it is waited for"


def test_an_attempt_that_starts_after_its_successor_cannot_claim(tmp_path: Path) -> None:
    owner(tmp_path, 2).claim()
    with pytest.raises(SupersededError):
        owner(tmp_path, 1).claim()


def test_the_attempts_of_a_later_sweep_may_count_from_one_again(tmp_path: Path) -> None:
    """The folder of the trial was removed, its checkpoints elsewhere were not."""
    stale = owner(tmp_path, 5, run="earlier")
    stale.claim()
    owner(tmp_path, 1, run="later").claim()
    with pytest.raises(SupersededError):
        stale.check()


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"attempt": null, "run": "r"}'])
def test_a_damaged_claim_stops_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    owner(tmp_path, 1).check()
    owner(tmp_path, 1).claim()
    owner(tmp_path, 1).check()


def state(step: int) -> dict[str, Any]:
    return {"step": step, "w": torch.zeros(2)}


def steps(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder / KEY[:16])) for path in folder.glob(f"{KEY[:16]}/*/*"))


def test_a_stale_attempt_writes_and_removes_nothing_of_translation(tmp_path: Path) -> None:
    stale, newest = (Checkpoints(str(tmp_path), KEY, attempt, keep=1) for attempt in (1, 2))
    stale.claim("r")
    stale.save(320, state(320))
    stale.wait()
    newest.claim("r")
    assert (newest.newest() or {})["step"] == 320
    stale.save(330, state(330))
    with pytest.raises(CheckpointError, match="attempt 2 owns"):
        stale.wait()
    stale.tidy()
    assert steps(tmp_path) == ["a1/step-320"]
    newest.save(340, state(340))
    newest.tidy()
    assert steps(tmp_path) == ["a2/step-340"]


def test_a_claim_while_a_checkpoint_is_written_keeps_the_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer.training import checkpoint_files

    stale, newest = (Checkpoints(str(tmp_path), KEY, attempt, keep=1) for attempt in (1, 2))
    stale.claim("r")
    stale.save(320, state(320))
    stale.wait()
    kept = checkpoint_files.write

    def write_slowly(*arguments: Any) -> None:
        kept(*arguments)
        newest.claim("r")

    monkeypatch.setattr(checkpoint_files, "write", write_slowly)
    stale.save(330, state(330))
    with pytest.raises(CheckpointError):
        stale.wait()
    assert "a1/step-320" in steps(tmp_path)
