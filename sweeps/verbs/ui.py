"""The store that `allelse ui` serves and to which `allelse sync` sends, and a server that runs until Ctrl-C."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from sweeps.planning.compose import settings_to_read
from sweeps.planning.named_study import study_to_read
from sweeps.schema import Problem, RefusedError
from tracking.mlflow.database import follow_move
from tracking.mlflow.ledger import current_store, experiment_of
from tracking.mlflow.pages import answers, page_address
from tracking.study import Study
from tracking.uri import default_uri

SERVERS = ("http://", "https://")
START_S, ANSWER_S = 120.0, 5.0  # how long a server may take to start, and a running one to answer


@dataclass(frozen=True)
class ServedStore:
    """A tracking store, and the study to open. ``notices`` say which study was taken, if there was a choice."""

    uri: str
    runs: Path
    study: Study | None = None
    notices: tuple[str, ...] = ()

    @property
    def running(self) -> bool:
        return self.uri.startswith(SERVERS)

    def lines(self, server: str) -> list[tuple[str, str]]:
        """What there is to see on the server at this address: words, and a link. The first one is the best to open."""
        found = experiment_of(self.study.folder, self.uri) if self.study else None
        pages = [("All of MLflow", server)]
        if self.study is None or found is None:
            return pages
        kinds = {"as a table": "", "with charts": "CHART", "texts side by side": "ARTIFACT"}
        name = self.study.name
        return [
            (f"{name} {words}", page_address(server, found, self.study.mark, mode)) for words, mode in kinds.items()
        ] + pages


def store_to_serve(overrides: list[str] | None) -> ServedStore:
    """The store of ``tracking.uri``; without it, the store to which the study was last carried. Raises RefusedError."""
    settings = settings_to_read(overrides)
    runs = Path(settings.paths.runs)
    store = _store_of_study(overrides, runs, settings.tracking.uri)
    if store.uri == default_uri(runs):
        _refuse_missing(runs)
    return store


def _store_of_study(overrides: list[str] | None, runs: Path, given: str | None) -> ServedStore:
    try:
        taken = study_to_read(overrides)
    except RefusedError:  # no study, or none that can be read: the runs of others may still be in the default store
        return ServedStore(given or default_uri(runs), runs)
    return ServedStore(store_of(taken.study, given), runs, taken.study, taken.notices)


def store_of(study: Study, given: str | None) -> str:
    """The address given; without one, that of the study's last tracker. Raises RefusedError.

    The recorded address has no password. Without one, a database cannot be reached, and a server may refuse.
    """
    uri = given or current_store(study.folder)
    if given is None and not uri.startswith((*SERVERS, "sqlite:")):
        found = f"is missing, and {study.name} is tracked at {uri}"
        raise RefusedError([Problem("tracking.uri", found, "type that address, with its user and password")])
    return uri


def _refuse_missing(runs: Path) -> None:
    """Raises RefusedError if the default store cannot be served."""
    if not (runs / "mlflow.db").exists():
        allowed = "the first run creates the database; start one with `allelse sweep`"
        raise RefusedError([Problem("paths.runs", f"is {runs}, which has no mlflow.db", allowed)])
    try:
        follow_move(runs)
    except sqlite3.Error as error:
        found = f"has {runs / 'mlflow.db'}, which cannot be used: {error}"
        raise RefusedError([Problem("paths.runs", found, "must be a database that can be written to")]) from None


def opens_browser() -> bool:
    """Whether a browser can show a page here: on a screen, not in a terminal or over SSH."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_when_ready(server: str, page: str, wait: bool) -> None:
    """Open the page as soon as the server answers; ``wait`` until then, or leave that to a thread."""

    def opened() -> None:
        if answers(server, START_S):
            webbrowser.open(page)

    opening = threading.Thread(target=opened, daemon=True)
    opening.start()
    if wait:
        opening.join(ANSWER_S)


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
