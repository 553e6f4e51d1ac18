"""A password in an address: used, and never written, shown or passed where others may read it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from small_text import TEXT
from studies import SMALL, answers, command, wait_until
from typed import typed

from tracking.mlflow.pages import free_port, ui_command, ui_environment
from tracking.uri import default_uri

SECRET, OTHER = "hunter2-pa55", "tok3n-0f-m1rr0r"
NAME = "sweep.name=files-tiny"
ROOT = Path(__file__).parents[3]


@contextmanager
def server(runs: Path) -> Iterator[str]:
    """MLflow's own, on a store of its own; its address without a password."""
    port = free_port(5000)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        ui_command(runs, port=port),
        env=ui_environment(default_uri(runs)),
        cwd=runs,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
    )
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/"), "MLflow's page", timeout=240)
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)


class Watch:
    """Every argument list of the process's children, and of theirs, until it ends.

    Between fork and exec a child shows the arguments that were typed. Those are not counted.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.seen: set[str] = set()
        self._process = process
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def join(self) -> set[str]:
        self._thread.join(timeout=60)
        return self.seen

    def _look(self) -> None:
        parent = psutil.Process(self._process.pid)
        with suppress(psutil.Error):
            typed_words = parent.cmdline()
            while self._process.poll() is None:
                lists = map(arguments_of, parent.children(recursive=True))
                self.seen.update(" ".join(words) for words in lists if words != typed_words)
                time.sleep(0.05)


def arguments_of(process: psutil.Process) -> list[str]:
    """Its argument list; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def run(words: list[str], cwd: Path) -> tuple[int, str, set[str]]:
    """Exit code, all that was printed, and the argument lists of all that was started."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(*words), cwd=cwd, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    watch = Watch(process)
    output, _ = process.communicate(timeout=500)
    return process.returncode, output, watch.join()


def holders(folder: Path, *secrets: str) -> list[str]:
    """The files that hold one of them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)]


@pytest.mark.slow
def test_no_file_argument_list_database_or_message_holds_the_password(
    workplace: Path, furnish: Callable[[Path], Path]
) -> None:
    mirror = f"data.mirror='https://{OTHER}@host/x?token={OTHER}'"
    words = [*SMALL, *TEXT, "train.steps=4", "train.checkpoint_every=2", mirror]
    with server(furnish(workplace / "server") / "runs") as address:
        uri = f"tracking.uri=http://somebody:{SECRET}@{address}"
        code, said, started = run(["train", *words, uri], workplace)
        assert code == 0, said
        assert any("tracking.mlflow.sync" in line for line in started)
        carried = typed(workplace, "sync", uri, NAME)
        assert carried.exit_code == 0, carried.output
        status = typed(workplace, "status", uri, NAME)
        assert f"MLflow at http://{address}: up to date" in status.stdout
        shown = [said, carried.output, status.output, typed(workplace, "config", uri, mirror).output]
    trial = workplace / "runs" / "files-tiny" / "base-s1"
    assert json.loads((trial / "result.json").read_text())["step"] == 4
    assert json.loads((trial.parent / "mlflow-ledger.json").read_text()).keys() == {f"http://{address}"}
    everything = "\n".join([*shown, *started])
    assert SECRET not in everything
    assert OTHER not in everything
    assert holders(workplace, SECRET, OTHER) == []
    assert f"tracking.uri=http://***@{address}" in (trial.parent / "study.json").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["train", "cluster.workers=2", f"tracking.uri=http://me:{SECRET}@host"],
        ["plan", f"tracking.uri=postgresql://me:{SECRET}@host/db", "model.n_headz=3"],
        ["plan", f"paths.checkpoints=sftp://me:{SECRET}@host/x", f"data.mirror=https://me:{SECRET}@host", "data=nope"],
        ["plan", f"trackin.uri=postgresql://me:{SECRET}@host/db"],
        ["plan", f"postgresql://me:{SECRET}@host/db"],
        ["plan", f"data.train=[http://me:{SECRET}@host/x,b]"],
        ["plan", f"tracking.uri=postgresql://me:{SECRET}@host/db", "sweep.rows=[base]"],
        ["config", f"tracking.uri=postgresql://me:{SECRET}@host/db?password={SECRET}"],
        ["status", f"tracking.uri=postgresql://me:{SECRET}@host/db"],
        ["ui", f"tracking.uri=https://me:{SECRET}@host/"],
        ["translate", "base-s1", f"tracking.uri=postgresql://me:{SECRET}@host/db"],
    ],
)
def test_no_message_shows_it(tmp_path: Path, words: list[str]) -> None:
    done = typed(tmp_path, *words)
    assert isinstance(done.exception, SystemExit | None)
    assert SECRET not in done.output
    assert done.output


def test_a_database_is_named_to_the_pages_by_their_environment(tmp_path: Path) -> None:
    uri = f"postgresql://me:{SECRET}@host/db"
    assert SECRET not in " ".join(ui_command(tmp_path))
    assert ui_environment(uri)["MLFLOW_BACKEND_STORE_URI"] == uri


def test_the_syncer_takes_no_address_as_an_argument(tmp_path: Path) -> None:
    words = ["--study", str(tmp_path), "--experiment", "e", "--uri", "http://host"]
    done = subprocess.run(
        [sys.executable, "-m", "tracking.mlflow.sync", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "unrecognized arguments" in done.stderr
