"""The process that carries a study's journals to MLflow, while a plan runs and afterwards."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from sweeps.settings import Settings


def sync_command(settings: Settings) -> list[str]:
    """The command that carries the study's journals to MLflow once; with `--follow`, until its stdin ends."""
    uri = ["--uri", settings.tracking.uri] if settings.tracking.uri else []
    where = ["--study", str(settings.study_folder), "--experiment", settings.tracking.experiment]
    return [sys.executable, "-m", "tracking.sync", *where, *uri]


@contextmanager
def syncing(settings: Settings, console: Console) -> Iterator[None]:
    """A process that carries the study's journals to MLflow, and is done when everything has been carried."""
    process = subprocess.Popen(
        [*sync_command(settings), "--follow"],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for us; its end is the end of its stdin
    )
    try:
        yield
    finally:
        assert process.stdin
        process.stdin.close()
        with console.status("Carrying the last results to MLflow"):
            _wait_for_sync(process, console)


def _wait_for_sync(process: "subprocess.Popen[bytes]", console: Console) -> None:
    """Another sweep of this study may hold the syncer's lock for long: then it carries our journals too."""
    try:
        carried = process.wait(timeout=60) == 0
    except subprocess.TimeoutExpired:
        process.terminate()
        carried = False
    if not carried:
        console.print("MLflow has not everything yet; `ablate sync` carries the rest")
