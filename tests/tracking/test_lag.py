"""How far MLflow is behind a study, and one line per failure of a store."""

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from studies_on_disk import EXPERIMENT, Store, begin, finish, make_study, report

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


CASES = """
import json, os, resource, sys
from tracking import sync
for study, uri, size in json.loads(sys.argv[1]):
    os.environ["URI_VARIABLE"] = uri
    if size:  # the limit of every file's bytes
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    print("code", sync.main(["--study", study, "--experiment", "EXPERIMENT"]), file=sys.stderr)
""".replace("URI_VARIABLE", URI_VARIABLE).replace("EXPERIMENT", EXPERIMENT)


def begun(folder: Path) -> Study:
    study = make_study(folder, {"base": [1], "a_heads_1": [1], "c_layers_2": [1]})
    for trial in study.trials:
        where = study.trial_folder(trial)
        report(where, begin(where), range(1, 4), checkpoints=(3,))
    return study


def synced(cases: list[tuple[Study, str, int]], here: Path) -> list[str]:
    """What one process in ``here`` prints that carries each study to a URI, with a limit of the bytes of each file."""
    given = json.dumps([(str(study.folder), uri, size) for study, uri, size in cases])
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CASES, given], cwd=here, env=env, capture_output=True, text=True)
    return (done.stdout + done.stderr).splitlines()


def test_a_fault_of_a_store_is_reported_in_one_line(runs: Path, store: Store, tmp_path: Path) -> None:
    database, locked = runs / "mlflow.db", begun(tmp_path / "runs" / "locked")
    shutil.copy(database, tmp_path / "runs")
    (tmp_path / "other.db").write_bytes(os.urandom(5000))
    studies = [begun(runs / name) for name in ("read_only", "no_database", "full_disk")]
    cases = [
        (studies[0], f"sqlite:///file:{database}?mode=ro&uri=true", 0),
        (studies[1], f"sqlite:///{tmp_path}/other.db", 0),
        (locked, "", 0),
        (studies[2], f"sqlite:///{tmp_path}/new.db", 300_000),
    ]
    here = tmp_path / "here"
    here.mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "runs" / "mlflow.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        lines = synced(cases, here)
    causes = (
        "attempt to write a readonly database",
        "file is not a database",
        "OperationalError: database is locked",
        "OperationalError: ",
    )
    assert lines[1::2] == ["code 1"] * len(cases), lines
    for line, cause in zip(lines[::2], causes, strict=True):
        assert line.startswith("sync: failed: ")
        assert cause in line
    assert "readonly" in lag(studies[0], None).words()
    assert json.loads((studies[0].folder / "mlflow-sync.json").read_text())["problems"]
    assert not list(here.iterdir()), "MLflow makes a folder for SQLite's own form of address"


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
