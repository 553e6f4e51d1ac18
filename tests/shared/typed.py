"""A command line typed in a folder, in this process."""

import contextlib
import io
import os
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

from filelock import FileLock
from typer.testing import CliRunner, Result

from sweeps.cli import app
from tracking.mlflow import sync
from tracking.uri import URI_VARIABLE


class SyncerHere:
    """In the place of the process that carries journals to MLflow: a new one would import it for
    seconds.

    It carries them once, when the sweep waits for its end.
    """

    def __init__(self, syncer: Any) -> None:
        self.settings = syncer._settings
        self.stdin = io.BytesIO()
        self.returncode = 0
        self._over = Event()

    def poll(self) -> int | None:
        return self.returncode if self._over.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Without a time in the thread that would start the process again."""
        if timeout is None:
            self._over.wait()
        elif not self._over.is_set():
            self._carry()
            self._over.set()
        return self.returncode

    def terminate(self) -> None:
        self._over.set()

    def _carry(self) -> None:
        folder = self.settings.study_folder.resolve()
        tracking = self.settings.tracking
        ended = Event()
        ended.set()
        store = mock.patch.dict(os.environ, {URI_VARIABLE: tracking.uri or ""})
        with store, FileLock(folder / ".sync.lock"):
            self.returncode = sync.Passes(folder, tracking.experiment).follow(os.getpid(), ended)


def typed(folder: Path, *arguments: str) -> Result:
    """The result of `allelse …`, with its output."""
    with (
        contextlib.chdir(folder),
        mock.patch("sweeps.running.syncer.Syncer._start", lambda syncer: SyncerHere(syncer)),
    ):
        return CliRunner().invoke(app, list(arguments))


def printed(folder: Path, *arguments: str) -> str:
    """The standard output of a command that succeeds."""
    outcome = typed(folder, *arguments)
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def refusal(folder: Path, *arguments: str) -> str:
    """The message of a refused command, on one line."""
    outcome = typed(folder, *arguments)
    assert (outcome.exit_code, outcome.stdout) == (2, ""), outcome.output
    return " ".join(outcome.stderr.split())


def refused_for(folder: Path, reasons: list[str], *arguments: str) -> str:
    """The message of a command that is refused for these reasons, each with its parts in this
    order."""
    message = refusal(folder, *arguments)
    assert message.startswith(f"Refused, for {len(reasons)} reason"), message
    for reason in reasons:
        position = -1
        for part in reason.split(" … "):
            position = message.find(part, position + 1)
            assert position >= 0, f"{part} is not in: {message}"
    return message
