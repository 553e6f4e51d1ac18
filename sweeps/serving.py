"""The store that `ablate ui` serves, and a server that runs until Ctrl-C."""

import os
import signal
import sqlite3
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sweeps.planning.compose import compose_settings
from sweeps.planning.named_study import study_to_read
from tracking.lag import read_state
from tracking.local_store import follow_move
from tracking.uri import default_uri
from transformer.schema import Problem, RefusedError

SERVERS = ("http://", "https://")


@dataclass(frozen=True)
class Store:
    """A tracking store. ``notices`` say for which study it was taken, if there was a choice."""

    uri: str
    runs: Path
    notices: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        return self.uri.startswith(SERVERS)


def store_to_serve(overrides: list[str] | None) -> Store:
    """The store of ``tracking.uri``; without it, the store to which the study was last carried. Raises RefusedError."""
    settings = compose_settings(overrides or [])
    runs = Path(settings.paths.runs)
    if settings.tracking.uri is not None:
        return Store(settings.tracking.uri, runs)
    store = _store_of_study(overrides, runs)
    if store.uri == default_uri(runs):
        _refuse_missing(runs)
    return store


def _store_of_study(overrides: list[str] | None, runs: Path) -> Store:
    try:
        taken = study_to_read(overrides)
    except RefusedError:  # no study, or none that can be read: the runs of others may still be in the default store
        return Store(default_uri(runs), runs)
    state = read_state(taken.study.folder)
    uri = state.uri if state else default_uri(runs)
    if not uri.startswith((*SERVERS, "sqlite:")):
        found = f"is missing, and {taken.study.name} is tracked at {uri}"
        raise RefusedError([Problem("tracking.uri", found, "type that address, with its user and password")])
    return Store(uri, runs, taken.notices)


def _refuse_missing(runs: Path) -> None:
    """Raises RefusedError if the default store cannot be served."""
    if not (runs / "mlflow.db").exists():
        allowed = "the first run creates the database; start one with `ablate sweep`"
        raise RefusedError([Problem("paths.runs", f"is {runs}, which has no mlflow.db", allowed)])
    try:
        follow_move(runs)
    except sqlite3.Error as error:
        found = f"has {runs / 'mlflow.db'}, which cannot be used: {error}"
        raise RefusedError([Problem("paths.runs", found, "must be a database that can be written to")]) from None


def serve(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until Ctrl-C, which is its normal end.

    A separate session shields it from Ctrl-C: SIGTERM ends it without a traceback.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        return 0
