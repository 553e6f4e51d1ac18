"""The syncer as a process: killed, orphaned, refused."""

import signal
import socket
from pathlib import Path

import pytest
from faulty_stores import start, wait_for
from filelock import FileLock
from studies_on_disk import EXPERIMENT, Store, begin, finish, history, only_run, report

from tracking.mlflow import sync
from tracking.study import Study
from tracking.trial import TrialFolder
from tracking.uri import URI_VARIABLE


def test_follow_killed_and_restarted_leaves_one_run_and_all_points(
    study: Study, folder: TrialFolder, store: Store
) -> None:
    attempt = begin(folder)
    report(folder, attempt, range(1, 6), checkpoints=(5,))
    first = start(study, "--follow")
    wait_for(lambda: (study.folder / "mlflow-ledger.json").exists())
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
    assert (second.stdout.read(), second.stderr.read()) == ("", ""), (
        "MLflow printed to our terminal"
    )
    assert history(study, store) == [(step, 10.0 + step) for step in range(1, 10)]
    assert only_run(study, store).info.status == "FINISHED"


def test_ctrl_c_ends_one_pass_without_a_traceback(
    study: Study, folder: TrialFolder, store: Store
) -> None:
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
    assert len(history(study, store)) == 1, "a further report may still join the newest one"


def test_one_pass_reports_a_server_that_is_down(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(URI_VARIABLE, "http://127.0.0.1:9")
    assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 1
    (output,) = capsys.readouterr().err.splitlines()
    assert output.startswith("sync: failed: ")
    assert output.endswith("Connection refused")


def test_a_missing_folder_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sync.main(["--study", str(tmp_path / "none"), "--experiment", EXPERIMENT]) == 1
    assert "no study at" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_two_syncers_never_run_at_once(
    study: Study, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sync, "LOCK_WAIT_S", 0.1)
    with FileLock(study.folder / ".sync.lock"):
        assert sync.main(["--study", str(study.folder), "--experiment", EXPERIMENT]) == 1
    assert "another process is already syncing" in capsys.readouterr().err


def test_an_address_among_the_words_is_refused(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every process of a machine can read the words; so an address with a password comes by the
    environment."""
    with pytest.raises(SystemExit, match="2"):
        sync.main(
            ["--study", str(study.folder), "--experiment", EXPERIMENT, "--uri", "http://host"]
        )
    assert "--uri" in capsys.readouterr().err
