"""Storage that fails for a while: which errors may pass, and for how long they are tried again."""

import errno
import threading
import time
from collections.abc import Callable

import pytest

from transformer.processes import storage
from transformer.processes.storage import StorageError, patiently, storage_fault, telling


class EndpointConnectionError(Exception):
    """botocore's has no number, and is no OSError."""


class BotocoreConnectionError(EndpointConnectionError):
    """Its base class there has the name of Python's own."""


BotocoreConnectionError.__name__ = "ConnectionError"


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 0.3)
    monkeypatch.setattr(storage, "PAUSE_S", 0.01)


def failing(times: float, error: Exception, takes: float = 0.0) -> Callable[[], str]:
    """Fails so often, each time after so many seconds."""
    calls = iter(range(10_000))

    def act() -> str:
        time.sleep(takes)
        if next(calls) < times:
            raise error
        return "written"

    return act


def test_a_write_that_fails_after_a_long_wait_is_tried_again() -> None:
    lines: list[str] = []
    act = failing(1, OSError(errno.EIO, "Input/output error", "/shared/file"), takes=0.4)
    assert telling(patiently(act, "/shared"), lines.append) == "written"
    assert [line.partition(";")[0] for line in lines] == [
        "/shared/file: Input/output error",
        "/shared/file can be used again",
    ]


def test_patience_ends() -> None:
    with pytest.raises(StorageError, match="/shared: No space left on device; free space there"):
        telling(patiently(failing(float("inf"), OSError(errno.ENOSPC, "No space left on device")), "/shared"), print)


def test_who_has_left_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PATIENCE_S", 600.0)
    monkeypatch.setattr(storage, "PAUSE_S", 600.0)
    left = threading.Event()
    threading.Timer(0.2, left.set).start()
    with pytest.raises(StorageError):
        telling(patiently(failing(float("inf"), OSError(errno.EROFS, "Read-only file system")), "/a", left), print)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (OSError(errno.EBUSY, "Please reduce your request rate"), "wait until it is less busy"),  # s3fs, of SlowDown
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "check that it can be reached"),
        (TimeoutError("no answer"), "check that it can be reached"),
        (BotocoreConnectionError("Could not connect to the endpoint URL"), "check that it can be reached"),
    ],
    ids=repr,
)
def test_a_server_that_is_away_is_asked_again(error: Exception, fix: str) -> None:
    fault = storage_fault(error, "s3://bucket")
    assert fault is not None
    assert str(fault).startswith("s3://bucket: ")
    assert str(fault).endswith(f"; {fix}")


@pytest.mark.parametrize("error", [ValueError("a bug"), PermissionError(errno.EACCES, "no"), FileNotFoundError()])
def test_other_errors_are_no_faults_of_storage(error: Exception) -> None:
    assert storage_fault(error, "/shared") is None
    with pytest.raises(type(error)):
        telling(patiently(failing(1, error), "/shared"), print)
