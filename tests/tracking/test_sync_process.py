"""The syncer as a process: killed, orphaned, refused."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from studies_on_disk import EXPERIMENT, Store, begin, finish, history, make_study, only_run, report, runs_of

from tracking import sync
from tracking.replay import PassOutcome
from tracking.study import Study
from tracking.trial_folder import TrialFolder
from tracking.uri import URI_VARIABLE, artifact_folder, default_uri

ROOT = Path(sync.__file__).parents[1]


def start(study: Study, *more: str, uri: str = "") -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "tracking.sync",
        "--study",
        str(study.folder),
        "--experiment",
        EXPERIMENT,
    ]
    pipe = subprocess.PIPE
    environment = os.environ | {URI_VARIABLE: uri}
    return subprocess.Popen(
        [*command, *more], stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=environment
    )


def wait_for(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.1)


def test_a_default_store_whose_creation_was_cut_is_made_anew(tmp_path: Path) -> None:
    """MLflow itself cannot go on with a database in which only some of its tables are made."""
    study = make_study(tmp_path / "s", {"base": [1]})
    folder = study.trial_folder(study.trials[0])
    report(folder, begin(folder), range(1, 4), checkpoints=(3,))
    runs, whole = study.folder.parent, study.folder.parent / "mlflow.db"
    first = start(study)
    wait_for(lambda: any(runs.glob(".mlflow-new-*/mlflow.db")) or first.poll() is not None)
    first.kill()
    first.communicate()
    assert not whole.exists(), "it came too late"
    again = start(study)
    _, told = again.communicate()
    assert again.returncode == 0, told
    assert whole.exists()
    assert not [*runs.glob(".mlflow-new-*")]


def test_follow_killed_and_restarted_leaves_one_run_and_all_points(
    study: Study, folder: TrialFolder, store: Store
) -> None:
    attempt = begin(folder)
    report(folder, attempt, range(1, 6), checkpoints=(5,))
    first = start(study, "--follow")
    wait_for(lambda: (study.folder / "mlflow-synced.json").exists())
    first.send_signal(signal.SIGKILL)
    first.communicate()
    report(folder, attempt, range(6, 10))
    second = start(study, "--follow")
    finish(study, study.trials[0], attempt, 9)
    assert second.stdin is not None
    second.stdin.close()  # as the kernel does when the parent dies
    assert second.wait(timeout=240) == 0
    assert second.stdout is not None
    assert second.stderr is not None
    assert (second.stdout.read(), second.stderr.read()) == ("", ""), "MLflow printed to our terminal"
    assert history(study, store) == [(step, 10.0 + step) for step in range(1, 10)]
    assert only_run(study, store).info.status == "FINISHED"


def test_ctrl_c_ends_one_pass_without_a_traceback(study: Study, folder: TrialFolder, store: Store) -> None:
    """While it waits for a server that accepts the connection and never answers."""
    report(folder, begin(folder), range(1, 3), checkpoints=(2,))
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = start(study, uri=f"http://127.0.0.1:{server.getsockname()[1]}")
        server.settimeout(240)
        server.accept()
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, "")
    assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 0
    assert len(history(study, store)) == 2


def test_ctrl_c_while_the_database_is_written_loses_nothing(study: Study, folder: TrialFolder, store: Store) -> None:
    """An interrupted SQLAlchemy raises its own errors: the syncer must not continue with the next trial."""
    many = {f"many/{number}": 1.0 for number in range(4_000)}
    assert folder.report(begin(folder), 1, many | {"loss": 11.0}, checkpoint=1)
    process = start(study)
    wait_for(lambda: (study.folder / "mlflow-runs.json").exists())  # points are next
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, output = process.communicate(timeout=120)
    assert (process.returncode, output) == (130, "")
    assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 0
    assert history(study, store) == [(1, 11.0)]
    assert len(only_run(study, store).data.metrics) == 4_001


def test_one_pass_prints_its_outcome(
    study: Study, folder: TrialFolder, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    report(folder, begin(folder), range(1, 3), checkpoints=(2,))
    arguments = ["--study", str(study.folder), "--experiment", EXPERIMENT]
    assert sync.main(arguments) == 0
    assert capsys.readouterr().err == f"sync: 1 runs, 2 new points, {default_uri(study.folder.parent)}\n"
    assert len(runs_of(study, store)) == 1


def test_one_pass_reports_a_server_that_is_down(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(URI_VARIABLE, "http://127.0.0.1:9")
    assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 1
    (output,) = capsys.readouterr().err.splitlines()
    assert output.startswith("sync: failed: ")
    assert output.endswith("Connection refused")


def test_a_missing_folder_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sync.main(["--study", str(tmp_path / "none"), "--experiment", EXPERIMENT]) == 1
    assert "no study at" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_two_syncers_never_run_at_once(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sync, "LOCK_WAIT_S", 0.1)
    with FileLock(study.folder / ".sync.lock"):
        assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 1
    assert "another process already syncs" in capsys.readouterr().err


def test_a_new_experiment_keeps_its_artifacts_next_to_the_database(runs: Path, store: Store) -> None:
    tracker, uri = store
    experiment = tracker.client.get_experiment(tracker.experiment_id)
    assert experiment.artifact_location == artifact_folder(runs).as_uri()
    assert uri == f"sqlite:///{runs}/mlflow.db"
    assert (runs / "mlflow.db").exists()


class Passes:
    """Passes that fail `failures` times; `stop` is set when the `stop_at`-th begins."""

    def __init__(self, failures: int, stop_at: int, stop: "Stop") -> None:
        self.failures, self.stop_at, self.stop, self.count = failures, stop_at, stop, 0

    def __call__(self) -> PassOutcome:
        self.count += 1
        if self.count == self.stop_at:
            self.stop.set()
        if self.count <= self.failures:
            raise ConnectionError("server away")
        return PassOutcome(1, 1, ())


class Stop(threading.Event):
    """Records the requested pauses instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.pauses.append(timeout or 0)
        return self.is_set()


def test_follow_pauses_longer_and_reports_a_problem_once(capsys: pytest.CaptureFixture[str]) -> None:
    stop = Stop()
    once = Passes(failures=7, stop_at=9, stop=stop)
    assert sync.follow(once, stop) == 0
    assert stop.pauses[:8] == [4, 8, 16, 32, 60, 60, 60, 2]
    assert capsys.readouterr().err.count("server away") == 1


def test_follow_ends_with_a_complete_pass_that_began_after_the_stop() -> None:
    stop = Stop()
    once = Passes(failures=0, stop_at=2, stop=stop)
    assert sync.follow(once, stop) == 0
    assert once.count == 3


def test_a_lasting_problem_is_not_retried_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    stop, passes = Stop(), list[PassOutcome]()

    def once() -> PassOutcome:
        passes.append(PassOutcome(1, 0, (f"damaged {len(passes)}",), lasting=True))
        if len(passes) == 2:
            stop.set()
        return passes[-1]

    assert sync.follow(once, stop) == 1
    assert len(passes) == 3
    assert capsys.readouterr().err.splitlines() == [
        "sync: failed, retrying: damaged 0",
        "sync: failed, retrying: damaged 1",
        "sync: failed: damaged 2",
    ]


@pytest.fixture
def ended_parent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input has ended, as when the parent dies; the process's handling of Ctrl-C is restored."""
    before = signal.getsignal(signal.SIGINT)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ended_parent")
def test_with_a_damaged_trial_follow_ends_after_the_others_are_sent(
    study: Study, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    for trial in study.trials[:2]:
        finish(study, trial, begin(study.trial_folder(trial)), 3)
    study.trial_folder(study.trials[0]).result_path.write_text("{")
    assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT, "--follow"]) == 1
    assert capfd.readouterr().err.count("base-s1/result.json") == 1
    assert [run.info.status for run in runs_of(study, store)] == ["FINISHED"]


def test_an_orphan_does_not_retry_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "GRACE_S", 0.2)
    stop = Stop()
    assert sync.follow(Passes(failures=10**6, stop_at=1, stop=stop), stop) == 1
