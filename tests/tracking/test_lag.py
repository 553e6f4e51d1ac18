"""How far MLflow is behind a study, and what a store that cannot be written to says: one line each."""

import json
import os
import resource
import sqlite3
import subprocess
import sys
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


def test_the_lag_counts_what_may_be_sent_and_was_not(study: Study, folder: TrialFolder) -> None:
    tracker, trial = MemoryTracker(), study.trials[0]

    def behind() -> int:
        return lag(study, "memory").behind

    def carry() -> None:
        Replay(study.folder, tracker, "memory").once()

    assert (behind(), lag(study, "memory").words()) == (0, "up to date")
    attempt = begin(folder)
    report(folder, attempt, range(1, 8), checkpoints=(5,))
    assert behind() == 5, "what comes after the checkpoint may be rolled back"
    carry()
    assert (behind(), lag(study, "memory").steps) == (0, {trial.key: 5})
    finish(study, trial, attempt, 7)
    assert behind() == 3, "two reports and the result"
    carry()
    assert (behind(), lag(study, "memory").steps) == (0, {trial.key: 7})
    assert lag(study, "http://elsewhere").behind == 8


def test_the_words_say_since_when_and_why() -> None:
    ago = time.time() - 185
    assert Lag("u", {}, 0, ago, ()).words() == "up to date"
    assert Lag("u", {}, 12, None, ()).words() == "12 reports behind, nothing carried yet"
    assert Lag("u", {}, 1, ago, ("away",)).words() == "1 report behind, last carried 3 min 05 s ago: away"


def test_the_last_state_names_the_store_that_was_meant(study: Study) -> None:
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


def carry(study: Study, uri: str = "", size: int | None = None) -> tuple[int, list[str]]:
    """`python -m tracking.sync` once; exit code and everything printed. ``size``: no file may grow beyond."""
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
    code, said = carry(study, uri, size)
    assert (code, len(said)) == (1, 1), said
    assert said[0].startswith("sync: not carried: ")
    assert cause in said[0]


def test_a_store_that_cannot_be_written_is_told_in_one_line(study: Study, store: Store) -> None:
    begun(study)
    database = study.folder.parent / "mlflow.db"
    one_line(study, "attempt to write a readonly database", f"sqlite:///file:{database}?mode=ro&uri=true")
    assert "readonly" in lag(study, None).words()
    assert json.loads((study.folder / "mlflow-sync.json").read_text())["problems"]


def test_a_store_that_is_no_database_is_told_in_one_line(study: Study, tmp_path: Path) -> None:
    begun(study)
    (tmp_path / "other.db").write_bytes(os.urandom(5000))
    one_line(study, "file is not a database", f"sqlite:///{tmp_path}/other.db")


def test_a_full_disk_is_told_in_one_line(study: Study, tmp_path: Path) -> None:
    begun(study)
    one_line(study, "OperationalError: ", f"sqlite:///{tmp_path}/new.db", size=300_000)


def test_a_locked_database_is_told_in_one_line(study: Study, store: Store) -> None:
    begun(study)
    other = sqlite3.connect(study.folder.parent / "mlflow.db")
    other.execute("BEGIN EXCLUSIVE")
    try:
        one_line(study, "OperationalError: database is locked")
    finally:
        other.close()


def test_a_recovery_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    stop, answers = sync.threading.Event(), iter([("down",), ("down",), (), ()])

    def once() -> PassOutcome:
        problems = next(answers, ())
        if not problems:
            stop.set()
        return PassOutcome(1, 0, problems)

    stop.wait = lambda timeout=None: stop.is_set()  # type: ignore[method-assign]
    assert sync.follow(once, stop) == 0
    assert capsys.readouterr().err.splitlines() == [
        "sync: not carried, trying again: down",
        "sync: carried again",
    ]
