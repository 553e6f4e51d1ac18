"""Real stores that can be killed, stopped and started again, and a comparison of what they hold
with the journals."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from studies_on_disk import EXPERIMENT, opened

from tracking.mlflow.database import answers, free_port, ui_command, ui_environment
from tracking.study import Study
from tracking.uri import URI_VARIABLE, default_uri

POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path())
PATIENCE_S = 240.0
ROOT = Path(__file__).parents[2]
Statuses = dict[str, str]


@dataclass
class Served:
    """A store in processes of its own, in ``folder``."""

    folder: Path
    uri: str
    command: list[str]
    ready: Callable[[], bool]
    environment: dict[str, str] | None = None
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for(self.ready)

    def hang(self) -> None:
        """Connections are accepted by the kernel, and nobody answers."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self.process = None

    def _send(self, number: signal.Signals) -> None:
        main = [] if self.process is None else [psutil.Process(self.process.pid)]
        for process in [
            *main,
            *(child for parent in main for child in parent.children(recursive=True)),
        ]:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(number)


def mlflow_server(folder: Path) -> Served:
    """What `allelse ui` and docs/mlflow.md start, on a database of its own."""
    port = free_port(0)
    uri = f"http://127.0.0.1:{port}"
    command = ui_command(folder, port=port)
    return Served(
        folder, uri, command, lambda: answers(uri, 1.0), ui_environment(default_uri(folder))
    )


def postgres(folder: Path) -> Served:
    """Debian's server, without a password on the loopback address. It refuses to run as root: then
    as its own user."""
    port = free_port(0)
    data = str(folder / "data")
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    initdb = [*_as_postgres("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    options = [
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "fsync=off",
        "-c",
        f"unix_socket_directories={folder}",
    ]
    command = [*_as_postgres("postgres"), "-D", data, "-p", str(port), *options]
    is_ready = [str(POSTGRES / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={port}"]
    uri = f"postgresql+psycopg://postgres@127.0.0.1:{port}/postgres"
    return Served(
        folder, uri, command, lambda: subprocess.run(is_ready, check=False).returncode == 0
    )


def _as_postgres(program: str) -> list[str]:
    user = (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        if os.geteuid() == 0
        else []
    )
    return [*user, str(POSTGRES / program)]


@contextmanager
def serving(make_store: Callable[[Path], Served]) -> Iterator[Served]:
    """A running store in a folder that its own user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        store = make_store(Path(folder))
        try:
            store.start()
            yield store
        finally:
            store.resume()
            store.kill()


def start(study: Study, *options: str, uri: str = "") -> subprocess.Popen[str]:
    """The syncer, as a sweep starts it."""
    words = ["--study", str(study.folder), "--experiment", EXPERIMENT, *options]
    return subprocess.Popen(
        [sys.executable, "-m", "tracking.mlflow.sync", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {URI_VARIABLE: uri},
    )


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.1)


def assert_exact(study: Study, statuses: Statuses, uri: str) -> None:
    """One run per trial with its status and exactly its journal's points; nothing is RUNNING."""
    client, experiment = opened(uri)
    runs = client.search_runs([experiment], f"tags.`sweep.id` = '{study.name}'")
    trial_runs = [run for run in runs if "trial.key" in run.data.tags]
    assert sorted(run.data.tags["trial.key"] for run in trial_runs) == sorted(statuses), (
        "one run per trial"
    )
    assert {run.data.tags["trial.key"]: run.info.status for run in trial_runs} == statuses
    assert all(run.info.status != "RUNNING" for run in runs)
    trials = {trial.key: study.trial_folder(trial) for trial in study.trials}
    for run in trial_runs:
        journal = trials[run.data.tags["trial.key"]].journal()
        expected = [(line.step, round(1000 * line.ts), line.metrics["loss"]) for line in journal]
        points = client.get_metric_history(run.info.run_id, "loss")
        assert sorted((point.step, point.timestamp, point.value) for point in points) == expected
