"""Background writes: on a filesystem with a gate that the test opens, and that the test can break."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem
from saved_states import files, newest_step, save, state
from small_trials import KEY, OWN

from transformer.processes import storage
from transformer.processes.storage import StorageError
from transformer.training.checkpoint import CheckpointError, Checkpoints

URL = "gated://trial"


class GatedFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """In memory. A closed gate blocks writes, a broken connection fails every call, and once the next write has no
    space left."""

    protocol = "gated"
    store: dict[str, Any] = {}  # noqa: RUF012 (fsspec's way of sharing one memory)
    pseudo_dirs: list[str] = [""]  # noqa: RUF012
    gate, reached, broken, full = (threading.Event() for _ in range(4))
    written: list[str] = []  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.replace("gated://", "memory://"))
        return stripped

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if "w" in mode:
            self.reached.set()
            assert self.gate.wait(60), "the gate stayed closed"
            self.written.append(path)
        self._connect()
        file = super()._open(path, mode, **options)
        if self.full.is_set():
            self.full.clear()
            file.write = self._no_room_once(file.write)
        return file

    def _no_room_once(self, write: Any) -> Any:
        failures = iter([OSError(errno.ENOSPC, "No space left on device")])

        def write_or_fail(data: bytes) -> int:
            for failure in failures:
                raise failure
            written: int = write(data)
            return written

        return write_or_fail

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._connect()
        return super().ls(path, detail, **options)

    def _connect(self) -> None:
        if self.broken.is_set():
            raise ConnectionError("the server has gone\naway")


@pytest.fixture
def filesystem() -> Iterator[type[GatedFileSystem]]:
    """A filesystem with its gate closed."""
    fsspec.register_implementation("gated", GatedFileSystem, clobber=True)
    for event in (GatedFileSystem.gate, GatedFileSystem.reached, GatedFileSystem.broken, GatedFileSystem.full):
        event.clear()
    for memory in (GatedFileSystem.store, GatedFileSystem.written):
        memory.clear()
    GatedFileSystem.pseudo_dirs[:] = [""]
    yield GatedFileSystem
    GatedFileSystem.gate.set()  # so that no writer waits forever


def test_save_returns_before_the_write_and_training_may_change_the_state(filesystem: type[GatedFileSystem]) -> None:
    checkpoints, trained = Checkpoints(URL, KEY, 1, keep=2), state(5)
    checkpoints.save(5, trained)
    assert filesystem.reached.wait(60)
    assert files(URL, "a*/step-*/*") == []
    trained["model"]["w"].zero_()
    trained["metrics"]["dev/ppl"] = 0.0
    filesystem.gate.set()
    assert checkpoints.wait() == 5
    found = Checkpoints(URL, KEY, 2, keep=2).newest()
    assert found is not None
    assert torch.equal(found["model"]["w"], state(5)["model"]["w"])
    assert found["metrics"] == state(5)["metrics"]


def test_a_written_step_is_reported_once(filesystem: type[GatedFileSystem]) -> None:
    filesystem.gate.set()
    checkpoints = Checkpoints(URL, KEY, 1, keep=2)
    assert checkpoints.wait() is None
    checkpoints.save(5, state(5))
    assert [checkpoints.wait(), checkpoints.wait()] == [5, None]
    checkpoints.save(10, state(10))
    checkpoints.save(15, state(15))
    assert [checkpoints.wait(), checkpoints.wait()] == [15, None]


def test_a_save_waits_for_the_write_before_it(filesystem: type[GatedFileSystem]) -> None:
    checkpoints, second = Checkpoints(URL, KEY, 1, keep=2), state(10)
    checkpoints.save(5, state(5))
    saving = threading.Thread(target=checkpoints.save, args=(10, second))
    saving.start()
    saving.join(0.2)
    assert saving.is_alive()
    second["model"]["w"].fill_(7.0)  # not copied yet: memory holds only one copy
    filesystem.gate.set()
    saving.join(60)
    assert checkpoints.wait() == 10
    found = Checkpoints(URL, KEY, 2, keep=2).newest()
    assert found is not None
    assert set(found["model"]["w"].tolist()) == {7.0}


def test_the_manifest_is_written_after_the_state(filesystem: type[GatedFileSystem]) -> None:
    filesystem.gate.set()
    save(URL, 1, 5, 10)
    assert filesystem.written == [
        f"/trial/{OWN}/a1/step-{step}/{name}" for step in (5, 10) for name in ("state.pt", "manifest.json")
    ]


def test_readers_of_this_attempt_wait_for_the_running_write(filesystem: type[GatedFileSystem]) -> None:
    checkpoints = Checkpoints(URL, KEY, 1, keep=2)
    checkpoints.save(5, state(5), 1.5)
    threading.Timer(0.2, filesystem.gate.set).start()
    assert [saved["step"] for saved in checkpoints.last(1)] == [5]
    checkpoints.save(10, state(10), 0.5)
    best = checkpoints.best()
    assert best is not None
    assert best["step"] == 10
    assert checkpoints.wait() == 10


@pytest.mark.parametrize("call", ["wait", "save"])
def test_the_error_of_a_write_is_raised_once_by_the_next_call(
    filesystem: type[GatedFileSystem], call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 0.0)
    filesystem.gate.set()
    checkpoints = save(URL, 1, 5)
    filesystem.broken.set()
    checkpoints.save(10, state(10))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.wait() if call == "wait" else checkpoints.save(15, state(15))
    assert str(caught.value) == (
        f"cannot write checkpoint {URL}/{OWN}/a1/step-10: the server has gone; check that it can be reached; "
        "the remaining checkpoints cannot be listed: the server has gone"
    )
    assert checkpoints.wait() is None
    filesystem.broken.clear()
    checkpoints.save(20, state(20))
    assert checkpoints.wait() == 20


def test_a_write_that_failed_in_the_middle_is_reported_even_if_the_rest_would_succeed(
    filesystem: type[GatedFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 0.0)
    filesystem.gate.set()
    checkpoints = save(URL, 1, 5)
    filesystem.full.set()
    checkpoints.save(10, state(10))
    with pytest.raises(
        CheckpointError,
        match=f"No space left on device; free space there; the newest complete checkpoint is {URL}/{OWN}/a1/step-5",
    ):
        checkpoints.wait()
    assert files(URL) == ["a1/step-5"]


def test_an_unreachable_place_does_not_cause_a_fresh_start(
    filesystem: type[GatedFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 0.0)
    filesystem.gate.set()
    save(URL, 1, 5)
    filesystem.broken.set()
    with pytest.raises(StorageError, match="the server has gone; check that it can be reached"):
        Checkpoints(URL, KEY, 2, keep=2).newest()
    filesystem.broken.clear()
    assert newest_step(URL, 2) == 5


def test_a_place_that_is_away_for_a_moment_is_asked_again(filesystem: type[GatedFileSystem]) -> None:
    """Also for the owner before a checkpoint is written, for the list of the older ones after it, and at a resume."""
    filesystem.gate.set()
    checkpoints = Checkpoints(URL, KEY, 1, keep=2)
    checkpoints.claim("r")
    checkpoints.save(5, state(5))
    checkpoints.wait()
    for step in (10, 15):
        filesystem.broken.set()
        Timer(0.5, filesystem.broken.clear).start()
        checkpoints.save(step, state(step))
        assert checkpoints.wait() == step
    assert files(URL) == ["a1/step-10", "a1/step-15"]
    filesystem.broken.set()
    Timer(0.5, filesystem.broken.clear).start()
    assert newest_step(URL, 2) == 15


def test_a_folder_that_cannot_be_created_is_reported_with_its_cause(tmp_path: Path) -> None:
    (tmp_path / OWN).mkdir()
    (tmp_path / OWN / "a1").write_text("in the way")
    checkpoints = Checkpoints(str(tmp_path), KEY, 1, keep=2)
    checkpoints.save(5, state(5))
    with pytest.raises(CheckpointError) as caught:
        checkpoints.wait()
    expected = f"cannot write checkpoint {tmp_path}/{OWN}/a1/step-5: Not a directory; there is no complete checkpoint"
    assert str(caught.value) == expected
