"""The default store's database, `<paths.runs>/mlflow.db`, and the server that shows its pages.

The database holds absolute addresses of artifacts, and you may move it. Nothing here imports
MLflow, which takes three seconds.
"""

import os
import socket
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

from tracking.uri import artifact_folder

ARTIFACTS = "/mlflow-artifacts"  # the end of their addresses
ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("logged_models", "artifact_location"),
)
"""Tables and columns with addresses of artifacts."""


def follow_move(runs: Path) -> None:
    """Correct the addresses of artifacts in the default store after its folder was moved or copied.

    Raises sqlite3.Error if the database cannot be read or written.
    """
    path = runs / "mlflow.db"
    if not path.exists():
        return
    artifacts = artifact_folder(runs)
    with closing(_open(path, "rw")) as database, database:
        columns = [address for address in ADDRESSES if _has(database, *address)]
        if ADDRESSES[0] not in columns:
            return
        for former in _former_artifacts(database, artifacts):
            for table, column in columns:
                _replace_start(database, table, column, former, artifacts.as_uri())


def _open(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True)


def _has(database: sqlite3.Connection, table: str, column: str) -> bool:
    """Whether this version of MLflow's schema has the column."""
    return column in [fields[1] for fields in database.execute(f"PRAGMA table_info({table})")]


def has_run(runs: Path, run: str) -> bool:
    """Whether the default store has the run. A study that was copied without its store names a run
    of that store.

    Raises sqlite3.Error if the database cannot be read.
    """
    with closing(_open(runs / "mlflow.db", "ro")) as database:
        if not _has(database, "runs", "run_uuid"):
            return False
        rows = database.execute("SELECT 1 FROM runs WHERE run_uuid = ?", (run,))
        return rows.fetchone() is not None


def _former_artifacts(database: sqlite3.Connection, artifacts: Path) -> list[str]:
    """The addresses of earlier artifact folders. A folder that still exists stays in use while the
    new one does not exist."""
    rows = database.execute("SELECT DISTINCT artifact_location FROM experiments").fetchall()
    former = []
    for (address,) in rows:
        if not address or not address.startswith("file://") or not address.endswith(ARTIFACTS):
            continue
        is_unused = artifacts.exists() or not Path(unquote(urlsplit(address).path)).exists()
        if address != artifacts.as_uri() and is_unused:
            former.append(address)
    return former


def _replace_start(
    database: sqlite3.Connection, table: str, column: str, former: str, current: str
) -> None:
    """Replace the folder ``former`` at the start of each address in the column."""
    database.execute(
        f"UPDATE {table} SET {column} = ? || substr({column}, ?)"  # names from ADDRESSES
        f" WHERE {column} = ? OR substr({column}, 1, ?) = ?",
        (current, len(former) + 1, former, len(former) + 1, f"{former}/"),
    )


def without_new_folder(uri: str) -> str:
    """The address with a driver.

    Without one, MLflow would make a folder `file:` in the current folder.
    """
    return uri.replace("sqlite:///file:", "sqlite+pysqlite:///file:", 1)


def ui_command(runs: Path, port: int = 5000) -> list[str]:
    """The command that serves a store at http://127.0.0.1:port.

    `ui_environment()` names the store.
    """
    artifacts = artifact_folder(runs).as_uri()
    command = [sys.executable, "-m", "mlflow", "server"]
    command += ["--default-artifact-root", artifacts]
    command += ["--artifacts-destination", artifacts]  # by default ./mlartifacts
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1"]
    command += ["--uvicorn-opts", "--log-level=warning"]  # otherwise it prints a line per request
    return command


def ui_environment(uri: str) -> dict[str, str]:
    """This process's environment with the address of a store in a database: an argument list would
    show its password to all users.

    Turns off MLflow's job runners (2 GB of memory), telemetry and warnings.
    """
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": without_new_folder(uri),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONSAFEPATH": "1",  # modules of the current folder must not hide MLflow's
        "PYTHONWARNINGS": "ignore",  # of MLflow's libraries
    }


def answers(server: str, wait_s: float) -> bool:
    """Whether the server at this address answers within ``wait_s`` seconds."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        with suppress(OSError), urlopen(f"{server}/health", timeout=1):
            return True
        time.sleep(0.2)
    return False


def free_port(preferred: int) -> int:
    """`preferred` if it is free on 127.0.0.1, otherwise a free port that the system chooses."""
    for port in (preferred, 0):
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
