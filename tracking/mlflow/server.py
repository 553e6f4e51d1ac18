"""MLflow's UI on a study's store."""

import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

from tracking.mlflow.database import without_new_folder
from tracking.mlflow.view import view_id
from tracking.uri import artifact_folder


def ui_command(runs: Path, host: str = "127.0.0.1", port: int = 5000) -> list[str]:
    """The command that serves a store at http://host:port; run it in `ui_environment()`, which names the store."""
    artifacts = artifact_folder(runs).as_uri()
    return [
        *(sys.executable, "-m", "mlflow", "server"),
        *("--default-artifact-root", artifacts),
        *("--artifacts-destination", artifacts),  # the default is ./mlartifacts in the current directory
        *("--host", host, "--port", str(port)),
        *("--workers", "1"),
        *("--uvicorn-opts", "--log-level=warning"),  # a line per request says nothing to who looks at runs
    ]


def page_address(server: str, experiment: str, mark: str, mode: str = "") -> str:
    """The address of the comparison of the study with this mark.

    ``mode``: "" for the table, CHART, or ARTIFACT for texts side by side. A filter or an order in the address would
    switch the view off.
    """
    how = f"&compareRunsMode={mode}" if mode else ""
    query = f"viewStateShareKey={view_id(mark)}&workflowType=machine_learning{how}"
    return f"{server.rstrip('/')}/#/experiments/{experiment}/runs?{query}"


def answers(server: str, wait_s: float) -> bool:
    """Whether the server at this address answers within so many seconds."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        with suppress(OSError), urlopen(f"{server}/health", timeout=1):
            return True
        time.sleep(0.2)
    return False


def ui_environment(uri: str) -> dict[str, str]:
    """This process's environment with the store's address, since an argument list would show its password to all users.
    It turns off MLflow's job runners (2 GB of memory), telemetry and warnings. ``uri`` names a database.
    """
    return {
        **os.environ,
        "MLFLOW_BACKEND_STORE_URI": without_new_folder(uri),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONSAFEPATH": "1",  # modules of the current folder must not hide MLflow's
        "PYTHONWARNINGS": "ignore",  # of MLflow's own libraries, for their authors
    }


def free_port(preferred: int) -> int:
    """`preferred` if it is free on 127.0.0.1, otherwise a free port that the system chooses."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
