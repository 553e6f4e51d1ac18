"""The verbs for MLflow: ``sync`` sends a study there, ``ui`` serves its pages until Ctrl-C."""

import os
import signal
import sqlite3
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import ERR, OUT
from sweeps.planning.studies.published_copy import writable
from sweeps.planning.studies.study_overrides import names_study
from sweeps.problems import RefusedError, refusal
from sweeps.verbs.command import OverrideList, guarded, refuse_without_extra, taken_study
from sweeps.verbs.remove import unsynced
from tracking.study import Study
from tracking.uri import default_uri, without_password

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

SERVERS = ("http://", "https://")
LOOK_S = 1.0  # seconds to wait for the server's answer before looking whether it has ended


@guarded
def sync(
    overrides: OverrideList = None,
    again: Annotated[
        bool, typer.Option("--again", help="Send the whole study again, as new runs.")
    ] = False,
) -> int:
    """Send a study's journals to MLflow: to tracking.uri, or to the study's last store."""
    refuse_without_extra()
    study, settings = writable(*taken_study(overrides))
    if again:
        from tracking.mlflow.ledger import separate

        with unsynced(study.folder):  # a process that sends now would use the earlier identity
            separate(study.folder)
    return send(study, settings)


def send(study: Study, settings: "Settings", output: IO[str] | None = None) -> int:
    """Sync the study once, in its own process, which prints to ``output`` or standard output.

    Returns its exit code. Raises RefusedError.
    """
    refuse_without_extra()
    from sweeps.planning.study_rows.todays_words import record_words
    from sweeps.running.syncer import sync_command, sync_environment

    record_words(study)
    environment = sync_environment(_store_of(study, settings.tracking.uri))
    words = sync_command(settings)
    return subprocess.run(words, env=environment, stdout=output, check=False).returncode


@guarded
def ui(
    overrides: OverrideList = None,
    port: Annotated[int, typer.Option(help="Use this port if it is free.")] = 5000,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
) -> int:
    """Open a study in MLflow: serve its pages on 127.0.0.1, or link to the server that has them.

    A study that the default store lacks, such as an imported one, is sent there first.
    """
    refuse_without_extra()
    from tracking.mlflow.database import free_port

    runs, study, uri = _to_serve(overrides)
    shows_page = browser and _has_screen()
    if uri.startswith(SERVERS):
        page = _print_pages(without_password(uri, mark=""), uri, study)
        OUT.print("The server is already running.")
        if shows_page:
            webbrowser.open(page)
        return 0
    port = free_port(port)
    server = f"http://127.0.0.1:{port}"

    def open_page() -> None:
        page = _print_pages(server, uri, study)
        OUT.print("Press Ctrl-C to stop the server.")
        if shows_page:
            webbrowser.open(page)

    return _serve(runs, uri, port, server, open_page)


def _print_pages(server: str, uri: str, study: Study | None) -> str:
    """Print the links to all pages. Returns the best one to open."""
    pages = _pages(server, uri, study)
    for title, link in pages:
        OUT.print(f"{escape(title)}: [bold]{escape(link)}[/]", soft_wrap=True, highlight=False)
    _, best_link = pages[0]
    return best_link


def _to_serve(overrides: list[str] | None) -> tuple[Path, Study | None, str]:
    """The folder of studies, the study to open, and its store: that of ``tracking.uri``, or by
    default the study's last one.

    Raises RefusedError.
    """
    from sweeps.planning.studies.named_study import settings_to_read

    settings = settings_to_read(overrides)
    runs = Path(settings.paths.runs)
    study = None
    uri = settings.tracking.uri or default_uri(runs)
    try:
        study, settings = writable(*taken_study(overrides))
    except RefusedError:
        if names_study(overrides or []):
            raise
        # no readable study, but the default store may hold the runs of others
    else:
        runs = Path(settings.paths.runs)
        uri = _store_of(study, settings.tracking.uri)
        if uri == default_uri(runs) and not _has_runs(study.folder, uri):
            ERR.print(f"Sending {escape(study.name)} to MLflow first.", style="dim")
            send(study, settings, sys.stderr)
    if uri == default_uri(runs):
        _refuse_missing(runs)
    return runs, study, uri


def _store_of(study: Study, typed: str | None) -> str:
    """The typed address, or by default that of the study's last store. Raises RefusedError.

    The recorded address has no password: a database needs one, and a server may.
    """
    from tracking.mlflow.ledger import current_store

    uri = typed or current_store(study.folder)
    if typed is None and not uri.startswith((*SERVERS, "sqlite:")):
        fault = f"is missing, and {study.name} is tracked at {uri}"
        fix = "type that address, with its user and password"
        raise refusal("tracking.uri", fault, fix)
    return uri


def _refuse_missing(runs: Path) -> None:
    """Raises RefusedError if the default store cannot be served."""
    from tracking.mlflow.database import follow_move

    database = runs / "mlflow.db"
    if not database.exists():
        allowed = "the first run creates the database; start one with `allelse sweep`"
        raise refusal("paths.runs", f"is {runs}, which has no mlflow.db", allowed)
    try:
        follow_move(runs)
    except sqlite3.Error as error:
        fault = f"has {database}, which cannot be used: {error}"
        allowed = "must be a writable database"
        raise refusal("paths.runs", fault, allowed) from None


def _pages(server: str, uri: str, study: Study | None) -> list[tuple[str, str]]:
    """The pages on the server: their titles and links. The first one is the best to open."""
    from tracking.mlflow.ledger import experiment_of
    from tracking.mlflow.view import page_address

    everything = ("All of MLflow", server)
    experiment = None if study is None else experiment_of(study.folder, uri)
    if study is None or experiment is None or not _has_runs(study.folder, uri):
        return [everything]
    modes = {"as a table": "", "with charts": "CHART"}
    if study.task.artifacts:
        modes["texts side by side"] = "ARTIFACT"
    study_pages = [
        (f"{study.name} {words}", page_address(server, experiment, study.mark, mode))
        for words, mode in modes.items()
    ]
    return [*study_pages, everything]


def _has_runs(study: Path, uri: str) -> bool:
    """Whether the store has the study's runs. A copied study may lack its store, and its numbers
    may mean other runs here."""
    from tracking.mlflow.database import has_run
    from tracking.mlflow.ledger import study_run

    recorded = study_run(study, uri)
    if recorded is None:
        return False
    if uri != default_uri(study.parent):
        return True
    with suppress(sqlite3.Error):  # serving it says why it cannot be read
        return has_run(study.parent, recorded.run)
    return False


def _has_screen() -> bool:
    """Whether a browser can show a page here, which needs a screen: not over SSH."""
    if sys.platform in ("darwin", "win32"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _serve(runs: Path, uri: str, port: int, server: str, open_page: Callable[[], None]) -> int:
    """Run MLflow's server until Ctrl-C, and call ``open_page`` once it answers. Returns the exit
    code.

    The server has a session of its own, so that Ctrl-C does not reach it: SIGTERM ends it without
    a traceback.
    """
    from tracking.mlflow.database import answers, ui_command, ui_environment

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    ERR.print("Starting MLflow's server; this takes a few seconds.", style="dim", soft_wrap=True)
    process = subprocess.Popen(
        ui_command(runs, port=port),
        env=ui_environment(uri),
        stdout=subprocess.DEVNULL,  # our links are the first line; faults go to standard error
        start_new_session=True,
    )
    try:
        while process.poll() is None:
            if answers(server, LOOK_S):
                open_page()
                break
        return process.wait()
    except KeyboardInterrupt:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        return 0
