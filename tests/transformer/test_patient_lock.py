"""Who waits for a lock does not count as hanging."""

import threading
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from transformer.processes import patient_lock as module
from transformer.processes.alive import signs


def test_who_waits_gives_signs_of_life_and_then_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.05)
    path, before = tmp_path / "lock", signs()
    held, entered, leave = FileLock(path, thread_local=False), threading.Event(), threading.Event()
    held.acquire()

    def wait() -> None:
        with module.patient_lock(path):
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=wait)
    thread.start()
    while signs() < before + 3:
        assert not entered.is_set(), "somebody else holds it"
        thread.join(0.01)
    held.release()
    assert entered.wait(60)
    with pytest.raises(Timeout):
        FileLock(path).acquire(timeout=0.1)
    leave.set()
    thread.join(60)
    with FileLock(path).acquire(timeout=60):
        pass
