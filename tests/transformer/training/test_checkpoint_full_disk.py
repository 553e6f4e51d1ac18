"""A really full disk: the trial stops with a clear error, and the last good checkpoint remains."""

import contextlib
import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from saved_states import files, newest_step, save, state
from small_trials import KEY, OWN, assignment, copy_data, small_trial

from transformer.messages import Assignment, Finished, Report, Resumed
from transformer.processes import storage
from transformer.training.checkpoint import CheckpointError, Checkpoints
from transformer.worker import work

MEBI = 2**20
HALF, MORE = MEBI // 8, 3 * MEBI // 8
"""Counts of four-byte numbers: half a mebibyte, and one and a half."""
FULL = r"(No space left on device|File too large)"
FIX = r"(; free space there)?"


class SmallDisk:
    """2 MiB that can be filled."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, str(folder / "checkpoints")

    def fill(self) -> None:
        """Write until no byte fits."""
        with contextlib.suppress(OSError), (self.folder / "ballast").open("ab", buffering=0) as ballast:
            while ballast.write(bytes(4096)):
                pass

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()


class SmallFiles(SmallDisk):
    """For machines without the right to mount: files are limited to 1 MiB, or to a few bytes when full."""

    def fill(self) -> None:
        self.limit(100)

    def make_room(self) -> None:
        self.limit(MEBI)

    def limit(self, size: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk counts at once, not after two minutes."""
    monkeypatch.setattr(storage, "PATIENCE_S", 0.0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    with _mounted(folder) if _mount(folder) else _limited(folder) as disk:
        yield disk


def _mount(folder: Path) -> bool:
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _mounted(folder: Path) -> Iterator[SmallDisk]:
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def _limited(folder: Path) -> Iterator[SmallDisk]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    disk = SmallFiles(folder)
    disk.make_room()
    try:
        yield disk
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_reported_and_the_last_good_checkpoint_remains(disk: SmallDisk) -> None:
    checkpoints = save(disk.url, 1, 5, model=state(5, HALF)["model"])
    checkpoints.save(10, state(10, MORE))
    with pytest.raises(CheckpointError, match=FULL) as caught:
        checkpoints.wait()
    place = f"{disk.url}/{OWN}/a1"
    assert str(caught.value).startswith(f"cannot write checkpoint {place}/step-10: ")
    assert str(caught.value).endswith(f"; the newest complete checkpoint is {place}/step-5")
    assert files(disk.url, "a*/*") == ["a1/step-5"]
    assert files(disk.url, "a*/step-*/*") == ["a1/step-5/manifest.json", "a1/step-5/state.pt"]
    assert newest_step(disk.url, 2) == 5


def test_a_disk_too_small_from_the_start_is_reported(disk: SmallDisk) -> None:
    checkpoints = Checkpoints(disk.url, KEY, 1, keep=2)
    checkpoints.save(5, state(5, 2 * MORE))
    with pytest.raises(CheckpointError, match=rf"step-5: {FULL}{FIX}; there is no complete checkpoint$"):
        checkpoints.wait()
    assert files(disk.url, "a*/*") == []


def test_after_space_is_freed_the_next_attempt_resumes_and_writes(disk: SmallDisk) -> None:
    save(disk.url, 1, 5)
    disk.fill()
    checkpoints = Checkpoints(disk.url, KEY, 2, keep=2)
    checkpoints.save(10, state(10, HALF))
    with pytest.raises(CheckpointError, match=FULL):
        checkpoints.wait()
    assert newest_step(disk.url, 3) == 5
    disk.make_room()
    save(disk.url, 3, 10, model=state(10, HALF)["model"])
    assert newest_step(disk.url, 4) == 10


def test_a_trial_on_a_full_disk_stops_and_resumes_when_space_is_free(disk: SmallDisk, tmp_path: Path) -> None:
    trial = small_trial(copy_data(tmp_path, (60, 12, 7), "abcdef", longest=8, vocab_size=270), steps=60)
    assignments = [assignment(trial, attempt, tmp_path, disk.url) for attempt in (1, 2)]
    with pytest.raises(CheckpointError, match=FULL) as caught:
        _work_on_a_disk_that_fills(assignments[0], disk)
    disk.make_room()
    events = list(work(assignments[1]))
    (resumed,) = [event for event in events if isinstance(event, Resumed)]
    assert str(caught.value).endswith(f"the newest complete checkpoint is {disk.url}/{OWN}/a1/step-{resumed.step}")
    assert isinstance(events[-1], Finished)
    assert events[-1].step == 60


def test_a_write_that_finds_no_space_waits_until_there_is_some(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 60.0)
    checkpoints = save(disk.url, 1, 5)
    disk.fill()
    checkpoints.save(10, state(10, HALF))
    waiting = checkpoints.until_written()
    place = f"{disk.folder}/checkpoints/{OWN}/a1/step-10"
    failed = re.fullmatch(rf"({re.escape(place)}\S*): {FULL}; trying again for 1 min", next(waiting))
    assert failed
    disk.make_room()
    assert list(waiting) == [f"{failed[1]} can be used again"]
    assert checkpoints.wait() == 10
    assert newest_step(disk.url, 2) == 10


def test_who_leaves_waits_for_no_space(disk: SmallDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 3600.0)
    save(disk.url, 1, 5)
    disk.fill()
    with Checkpoints(disk.url, KEY, 2, keep=2) as checkpoints:
        checkpoints.save(10, state(10, HALF))
        assert "trying again" in next(checkpoints.until_written())
    with pytest.raises(CheckpointError, match=FULL):
        checkpoints.wait()


def _work_on_a_disk_that_fills(assignment: Assignment, disk: SmallDisk) -> None:
    for event in work(assignment):
        if isinstance(event, Report) and files(disk.url, "a1/step-*/manifest.json"):
            disk.fill()
