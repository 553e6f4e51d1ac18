"""The syncer of a running plan: restarted when it dies, never two at once, and its end is printed."""

import errno
import os
import re
import shutil
import signal
import subprocess
import threading
from io import StringIO
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from rich.console import Console
from studies import wait_until

from sweeps.planning.compose import compose_settings
from sweeps.planning.settings import Settings
from sweeps.running import stopping, syncing
from sweeps.running.stopping import Interrupted, Stopping
from tracking.lag import sync_lock
from tracking.ledger import Ledger
from tracking.study import Study, Trial, write_study
from tracking.trial_folder import TrialFolder
from tracking.uri import default_uri

TRIAL = Trial("base", "base", "", 1, "a key", {})


@pytest.fixture
def settings(tmp_path: Path, database: Path) -> Settings:
    """The settings of a study with one trial that began."""
    (tmp_path / "runs").mkdir()
    shutil.copy(database, tmp_path / "runs")
    settings = compose_settings([f"paths.runs={tmp_path}/runs", "sweep.name=mine"])
    write_study(Study(settings.study_folder, (TRIAL,), {}, ()))
    folder = TrialFolder(settings.study_folder / TRIAL.name)
    begin(folder)
    folder.report(1, 5, {"loss": 1.0}, checkpoint=5)
    return settings


def begin(folder: TrialFolder) -> None:
    line = f'{{"attempt": 1, "ts": 1.0, "host": "here", "pid": {os.getpid()}}}\n'
    folder.path.mkdir(parents=True)
    folder.attempts_path.write_text(line)


@pytest.fixture
def screen() -> StringIO:
    return StringIO()


@pytest.fixture
def console(screen: StringIO) -> Console:
    return Console(file=screen, width=200)


def syncers(settings: Settings) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children():
        try:
            if str(settings.study_folder) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def carried(settings: Settings) -> int | None:
    synced = Ledger(settings.study_folder / "mlflow-synced.json", default_uri(settings.study_folder.parent))
    entry = synced.synced(TRIAL.key)
    return None if entry is None else entry.step


@pytest.mark.slow
def test_a_killed_syncer_is_restarted_and_carries_the_rest(
    settings: Settings, console: Console, screen: StringIO
) -> None:
    with syncing.syncing(settings, console):
        (first,) = syncers(settings)
        wait_until(lambda: carried(settings) == 5, "the first reports", timeout=400)
        first.kill()
        wait_until(lambda: [p.pid for p in syncers(settings)] not in ([], [first.pid]), "the next", timeout=400)
        assert len(syncers(settings)) == 1
        folder = TrialFolder(settings.study_folder / TRIAL.name)
        assert folder.report(1, 9, {"loss": 2.0}, checkpoint=9)
        wait_until(lambda: carried(settings) == 9, "the later reports", timeout=400)
    assert syncers(settings) == []
    printed = " ".join(screen.getvalue().split())
    assert "The process that syncs journals to MLflow ended with SIGKILL; it starts again in 1 s" in printed
    assert "MLflow is not up to date" not in printed


def stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Run another process in the syncer's place, to count its starts."""
    monkeypatch.setattr(syncing, "sync_command", lambda settings: ["sh", "-c", script, str(settings.study_folder)])


def test_a_syncer_that_always_fails_is_restarted_less_and_less_often(
    settings: Settings, console: Console, screen: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "exit 3")
    monkeypatch.setattr(syncing, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(syncing, "LONGEST_PAUSE_S", 0.08)
    with syncing.syncing(settings, console):
        wait_until(lambda: screen.getvalue().count("exit code 3") >= 6, "six deaths")
    pauses = [float(pause) for pause in re.findall(r"again in (\S+) s", screen.getvalue())]
    assert pauses[:6] == [0.01, 0.02, 0.04, 0.08, 0.08, 0.08]
    assert "MLflow is not up to date; run `ablate sync sweep.name=" in screen.getvalue()


def test_a_syncer_that_cannot_start_again_leaves_the_end_of_the_sweep_as_it_is(
    settings: Settings, console: Console, screen: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "exit 3")
    monkeypatch.setattr(syncing, "FIRST_PAUSE_S", 600.0)
    with syncing.syncing(settings, console):
        wait_until(lambda: "exit code 3" in screen.getvalue(), "its death")
        monkeypatch.setattr(subprocess, "Popen", no_memory)
    assert "MLflow is not up to date; run `ablate sync sweep.name=mine " in screen.getvalue()


def no_memory(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


def test_a_sweep_whose_study_another_process_syncs_says_so(
    settings: Settings, console: Console, screen: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "read end; exit 1")
    with sync_lock(settings.study_folder), syncing.syncing(settings, console):
        pass
    assert "MLflow is not up to date; another process syncs it now; then run `ablate sync " in screen.getvalue()


def test_a_syncer_that_died_just_before_the_end_is_restarted_for_the_rest(
    settings: Settings, console: Console, screen: StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    stand_in(monkeypatch, f"echo start >> {starts}; read end; exit 0")
    with syncing.syncing(settings, console):
        wait_until(lambda: starts.read_text() == "start\n", "the start")
        (first,) = syncers(settings)
        first.kill()
        wait_until(lambda: "SIGKILL" in screen.getvalue(), "its death")
    assert starts.read_text() == "start\nstart\n"
    assert "MLflow is not up to date" not in screen.getvalue()
    assert syncers(settings) == []


def test_the_syncer_is_not_restarted_after_the_end(
    settings: Settings, console: Console, screen: StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    stand_in(monkeypatch, "read end; exit 0")
    with syncing.syncing(settings, console):
        assert len(syncers(settings)) == 1
    wait_until(lambda: threading.active_count() <= before, "the thread's end")
    assert (syncers(settings), screen.getvalue().strip()) == ([], "")


LINES = ("base-s1 resumes from step 400",)


def leave(asked: Stopping, settings: Settings, console: Console, presses: int) -> None:
    """A run that ends after ``presses`` signals."""
    with asked.watching(), syncing.syncing(settings, console):
        try:
            with asked.gentle():
                for _ in range(presses):
                    signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as error:
            raise asked.with_lines(error, LINES) from None
        raise asked.interrupted(LINES)


def test_a_run_that_is_left_at_once_does_not_wait_for_the_syncer(
    settings: Settings, console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, f"read end; sleep 3; echo waited > {tmp_path}/waited; exit 0")
    monkeypatch.setattr(stopping, "ECHO_S", 0.0)
    with pytest.raises(Interrupted) as caught:
        leave(Stopping(), settings, console, presses=2)
    assert (caught.value.lines, caught.value.exit_code) == (LINES, 130)
    assert not (tmp_path / "waited").exists()
    wait_until(lambda: syncers(settings) == [], "its end")


def test_a_signal_while_a_run_waits_for_the_syncer_ends_the_wait_and_keeps_the_lines(
    settings: Settings, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(monkeypatch, "read end; kill -INT $PPID; exec sleep 600")
    monkeypatch.setattr(stopping, "ECHO_S", 0.0)
    with pytest.raises(Interrupted) as caught:
        leave(Stopping(), settings, console, presses=1)
    assert (caught.value.lines, caught.value.exit_code) == (LINES, 130)
    wait_until(lambda: syncers(settings) == [], "its end")
