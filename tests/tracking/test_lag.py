"""How far MLflow is behind a study, and one line per failure of a store."""

import json
import os
import resource
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from studies_on_disk import EXPERIMENT, Store, begin, finish, report

from tracking import sync
from tracking.lag import Lag, SyncLog, lag
from tracking.replay import PassOutcome, Replay
from tracking.study import Study
from tracking.tracker import MemoryTracker
from tracking.trial_folder import TrialFolder
from tracking.uri import URI_VARIABLE

ROOT = Path(sync.__file__).parents[1]


def test_the_lag_counts_reports_that_could_be_sent_but_were_not(study: Study, folder: TrialFolder) -> None:
    tracker, trial = MemoryTracker(), study.trials[0]

    def behind() -> int:
        return lag(study, "memory").behind

    def send() -> None:
        Replay(study.folder, tracker, "memory").once()

    assert (behind(), lag(study, "memory").words()) == (0, "up to date")
    attempt = begin(folder)
    report(folder, attempt, range(1, 8), checkpoints=(5,))
    assert behind() == 5, "reports after the checkpoint may be rolled back"
    send()
    assert (behind(), lag(study, "memory").steps) == (0, {trial.key: 5})
    finish(study, trial, attempt, 7)
    assert behind() == 3, "two reports and the result"
    send()
    assert (behind(), lag(study, "memory").steps) == (0, {trial.key: 7})
    assert lag(study, "http://elsewhere").behind == 8


def test_the_line_names_the_last_success_and_the_cause() -> None:
    ago = time.time() - 185
    assert Lag("u", {}, 0, ago, ()).words() == "up to date"
    assert Lag("u", {}, 12, None, ()).words() == "12 reports behind, nothing sent yet"
    assert Lag("u", {}, 1, ago, ("away",)).words() == "1 report behind, last sent 3 min 05 s ago: away"


def test_the_last_state_names_its_store(study: Study) -> None:
    log = SyncLog(study.folder, "http://me:secret@host")
    log.note(PassOutcome(1, 0, ("down",)))
    first = lag(study, None)
    assert (first.uri, first.carried, first.problems) == ("http://host", None, ("down",))
    log.note(PassOutcome(1, 3, ()))
    assert lag(study, "http://you:other@host").problems == ()
    assert (lag(study, None).carried or 0) > 0
    assert lag(study, "http://elsewhere").carried is None
    assert "secret" not in (study.folder / "mlflow-sync.json").read_text()


def test_a_state_that_does_not_change_is_not_written(study: Study) -> None:
    log = SyncLog(study.folder, "u")
    log.note(PassOutcome(1, 3, ()))
    (study.folder / "mlflow-sync.json").unlink()
    log.note(PassOutcome(1, 0, ()))
    assert not (study.folder / "mlflow-sync.json").exists()


def synced(study: Study, uri: str = "", size: int | None = None) -> tuple[int, list[str]]:
    """Run `python -m tracking.sync` once: exit code and printed lines. ``size``: the limit of every file's bytes."""
    command = [sys.executable, "-m", "tracking.sync", "--study", str(study.folder), "--experiment", EXPERIMENT]

    def limit() -> None:
        if size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {URI_VARIABLE: uri},
        capture_output=True,
        text=True,
        preexec_fn=limit,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def begun(study: Study) -> None:
    for trial in study.trials:
        where = study.trial_folder(trial)
        report(where, begin(where), range(1, 4), checkpoints=(3,))


def one_line(study: Study, cause: str, uri: str = "", size: int | None = None) -> None:
    code, lines = synced(study, uri, size)
    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith("sync: failed: ")
    assert cause in lines[0]


def test_a_read_only_store_is_reported_in_one_line(study: Study, store: Store) -> None:
    begun(study)
    database = study.folder.parent / "mlflow.db"
    one_line(study, "attempt to write a readonly database", f"sqlite:///file:{database}?mode=ro&uri=true")
    assert "readonly" in lag(study, None).words()
    assert json.loads((study.folder / "mlflow-sync.json").read_text())["problems"]


def test_a_file_that_is_not_a_database_is_reported_in_one_line(study: Study, tmp_path: Path) -> None:
    begun(study)
    (tmp_path / "other.db").write_bytes(os.urandom(5000))
    one_line(study, "file is not a database", f"sqlite:///{tmp_path}/other.db")


def test_a_full_disk_is_reported_in_one_line(study: Study, tmp_path: Path) -> None:
    begun(study)
    one_line(study, "OperationalError: ", f"sqlite:///{tmp_path}/new.db", size=300_000)


def test_a_locked_database_is_reported_in_one_line(study: Study, store: Store) -> None:
    begun(study)
    other = sqlite3.connect(study.folder.parent / "mlflow.db")
    other.execute("BEGIN EXCLUSIVE")
    try:
        one_line(study, "OperationalError: database is locked")
    finally:
        other.close()


def test_a_recovery_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    stop, answers = threading.Event(), iter([("down",), ("down",), (), ()])

    def once() -> PassOutcome:
        problems = next(answers, ())
        if not problems:
            stop.set()
        return PassOutcome(1, 0, problems)

    stop.wait = lambda timeout=None: stop.is_set()  # type: ignore[method-assign]
    assert sync.follow(once, stop) == 0
    assert capsys.readouterr().err.splitlines() == [
        "sync: failed, retrying: down",
        "sync: recovered",
    ]
