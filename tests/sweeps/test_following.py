"""Following and steering a sweep from its folder: `status --watch`, `stop`, `logs`."""

import errno
import io
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from finished_trials import finish, study_in, sweep
from rich.console import Console
from studies import wait_until
from typed import refusal, typed

from sweeps.planning.plan import Plan
from sweeps.running.announced import announced, withdraw_for_good
from sweeps.running.following import shown_log
from sweeps.running.stopping import Interrupted, Stopping
from sweeps.standings import status_json
from sweeps.watching import summary, watch
from tracking import followed_log
from tracking.followed_log import FollowedLog
from tracking.lag import lag
from tracking.log_file import LONGEST, append_log, begin_log, marked
from tracking.runners import SILENT_S, Runner, announce, request_stop, runners, stop_requests, withdraw

ROWS = "sweep.rows=[base,big]"


@pytest.fixture
def planned(tmp_path: Path) -> Plan:
    """A study of two trials, of which none has begun."""
    return sweep(tmp_path, ROWS, ends=0)


def elsewhere(planned: Plan, since: float, waiting: str = "") -> Runner:
    """A process on another machine that began the first trial, and reported twice, ``since`` seconds ago."""
    now = time.time() - since
    trials = tuple(trial.trial.name for trial in planned.trials)
    runner = Runner("node7", 42, now - 20, now, trials, waiting, left=40.0)
    folder = planned.trials[0].folder
    folder.begin_attempt(1, "node7", 42)
    for step, ts in ((100, now - 10), (200, now)):
        folder.report(1, step, {"train/loss": 1.0}, ts=ts)
    lines = folder.attempts_path.read_text().replace('"ts": ', f'"ts": {now - 20}, "was": ')
    folder.attempts_path.write_text(lines)
    announce(planned.folder, runner)
    return runner


def test_a_trial_on_another_machine_is_seen_by_its_last_sign(tmp_path: Path, planned: Plan) -> None:
    runner = elsewhere(planned, 5, "4 GPUs, 2 are free")
    study = study_in(tmp_path)
    first, second = status_json(study, lag(study, None))
    assert (first["state"], first["step"], first["steps"], first["note"]) == ("running", 200, 600, "on node7")
    assert 0 < first["seconds_left"] <= 40
    assert second["note"] == "waiting for 4 GPUs, 2 are free"
    assert typed(tmp_path, "status").stdout.endswith("Next: ablate status --watch\n")
    request_stop(planned.folder, runner, ["big-s1"])
    assert [line["note"] for line in status_json(study, lag(study, None))] == ["on node7", "asked to stop"]
    request_stop(planned.folder, runner, None)
    assert status_json(study, lag(study, None))[0]["note"] == "on node7; asked to stop"
    withdraw(planned.folder, runner)
    attempts = planned.trials[0].folder.attempts_path
    attempts.unlink()
    planned.trials[0].folder.journal_path.unlink()
    elsewhere(planned, 6 * SILENT_S)
    first, second = status_json(study, lag(study, None))
    assert (first["state"], first["seconds_left"], second["note"]) == ("silent", None, "")
    assert first["note"].startswith("silent for 12 min")
    shown = typed(tmp_path, "status")
    assert "silent for 12 min" in shown.stdout
    assert shown.stdout.splitlines()[-1].startswith("Next: ablate sweep")


def test_watching_tells_changes_and_ends_with_the_last_process(tmp_path: Path, planned: Plan) -> None:
    runner, said, steps = elsewhere(planned, 5), io.StringIO(), iter(range(10))

    def pause(seconds: float) -> None:
        match next(steps):
            case 0:
                finish(planned.trials[0])
            case 1:
                planned.trials[1].folder.begin_attempt(1, "node7", 42)
            case 2:
                finish(planned.trials[1])
                withdraw(planned.folder, runner)

    lines = watch(study_in(tmp_path), Console(file=said, width=120), pause)
    assert [line["state"] for line in lines] == ["finished", "finished"]
    shown = re.sub(r"about (?:[12]\d|3[0-6])\.\d s", "about 35 s", said.getvalue())  # some time passes until it looks
    assert shown.splitlines() == [
        "synthetic-tiny: 1 running, 1 waiting; about 35 s left",
        "base-s1: finished, dev PPL 4.50",
        "big-s1: running (on node7)",
        "big-s1: finished, dev PPL 4.50",
    ]


def test_in_a_narrow_terminal_the_commands_below_the_view_are_whole(tmp_path: Path, planned: Plan) -> None:
    runner, screen = elsewhere(planned, 5), io.StringIO()

    def pause(seconds: float) -> None:
        for trial in planned.trials:
            finish(trial)
        withdraw(planned.folder, runner)

    watch(study_in(tmp_path), Console(file=screen, width=80, height=40, force_terminal=True), pause)
    shown = "".join(line.rstrip() + " " for line in screen.getvalue().splitlines())
    assert "Ctrl-C ends only this view. " in shown
    assert " ends the sweep, which saves checkpoints first. " in shown
    assert "…" not in shown


def test_before_a_pace_is_known_watching_shows_the_time_left_of_running_trials(tmp_path: Path, planned: Plan) -> None:
    announce(planned.folder, replace(elsewhere(planned, 5), left=None))
    study = study_in(tmp_path)
    said = summary(study, status_json(study, lag(study, None)))
    assert re.search(r"1 waiting; about 3\d\.\d s until the running trials are trained$", said), said


def test_a_terminal_shows_the_table(tmp_path: Path, planned: Plan) -> None:
    runner, said = elsewhere(planned, 5), io.StringIO()

    def pause(seconds: float) -> None:
        finish(planned.trials[0])
        withdraw(planned.folder, runner)

    watch(study_in(tmp_path), Console(file=said, width=120, force_terminal=True), pause)
    assert "200/600" in said.getvalue()
    assert "1 of 2 finished" in said.getvalue()
    for words in ("Ctrl-C ends only this view. `ablate stop ", "TRIAL/log.txt", "mlflow.db"):
        assert words in said.getvalue()


def test_watching_ends_at_once_if_nothing_runs(tmp_path: Path, planned: Plan) -> None:
    shown = typed(tmp_path, "status", "--watch")
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[0] == "synthetic-tiny: 2 missing"


@pytest.fixture(params=[signal.default_int_handler, signal.SIG_IGN], ids=["typed", "in the background of a script"])
def _interrupts(request: pytest.FixtureRequest) -> Iterator[None]:
    """What Ctrl-C does to this process."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interrupts")
def test_this_process_announces_itself_and_takes_requests(planned: Plan) -> None:
    stopping, names = Stopping(), ["base-s1", "big-s1"]

    def run() -> None:
        (own,) = runners(planned.folder)
        assert (own.host, own.pid, own.trials) == (socket.gethostname(), os.getpid(), tuple(names))
        stopping.waiting = "2 CPUs, 1 is free"
        wait_until(lambda: runners(planned.folder)[0].waiting == "2 CPUs, 1 is free", "what it waits for", 60)
        request_stop(planned.folder, own, ["big-s1"])
        wait_until(lambda: stopping.requested_for("big-s1"), "the request", 60)
        assert not stopping.requested_for("base-s1")
        request_stop(planned.folder, own, None)
        time.sleep(60)  # the signal ends it

    with pytest.raises(Interrupted) as caught, stopping.watching(), announced(planned.folder, names, stopping):
        run()
    assert (caught.value.exit_code, stopping.requested_for("base-s1")) == (130, True)
    assert list((planned.folder / ".running").iterdir()) == []


def test_others_see_that_a_signal_stops_this_process(tmp_path: Path, planned: Plan) -> None:
    stopping, names = Stopping(), ["base-s1", "big-s1"]
    with announced(planned.folder, names, stopping):
        (own,) = runners(planned.folder)
        stopping.note(signal.SIGINT)
        wait_until(lambda: stop_requests(planned.folder, own) is None, "a request of its own", 60)
        study = study_in(tmp_path)
        assert [line["note"] for line in status_json(study, lag(study, None))] == ["asked to stop"] * 2
    assert list((planned.folder / ".running").iterdir()) == []


def test_a_process_that_ends_at_once_is_announced_no_more(planned: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if its announcement is being written on slow storage."""
    stopping, writing, written = Stopping(), threading.Event(), threading.Event()

    def announce_slowly(study: Path, runner: Runner) -> None:
        writing.set()
        time.sleep(0.5)
        announce(study, runner)
        written.set()

    with announced(planned.folder, ["base-s1"], stopping):
        monkeypatch.setattr("sweeps.running.announced.announce", announce_slowly)
        stopping.waiting = "2 CPUs, 1 is free"
        assert writing.wait(60)
        withdraw_for_good(planned.folder)
        assert written.wait(60)
        assert runners(planned.folder) == []
        writing.clear()
        stopping.waiting = ""
        assert not writing.wait(2.5), "it looks every second"


@pytest.fixture
def running(planned: Plan) -> Iterator[Runner]:
    """Another process of this machine that runs the study's trials."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        now = time.time()
        runner = Runner(socket.gethostname(), process.pid, now, now, ("base-s1", "big-s1"))
        announce(planned.folder, runner)
        yield runner


def test_stop_leaves_a_request_and_says_what_follows(tmp_path: Path, planned: Plan, running: Runner) -> None:
    one = typed(tmp_path, "stop", "big-s1")
    where = f"(pid {running.pid} on {running.host})"
    assert one.stdout.splitlines()[0] == f"big-s1 {where} will not start; the other trials go on"
    everything = typed(tmp_path, "stop", "sweep.name=synthetic-tiny")
    assert everything.stdout.splitlines() == [
        f"The sweep {where} stops after the current step, with a checkpoint",
        "Next: ablate status --watch",
    ]


def test_stop_refuses_wrong_names_and_finished_trials(tmp_path: Path, planned: Plan, running: Runner) -> None:
    said = refusal(tmp_path, "stop", "base", "bgi-s1")
    assert "did you mean base-s1?" in said
    assert said.endswith("Nothing was stopped.")
    finish(planned.trials[0])
    assert "base-s1, which is finished" in refusal(tmp_path, "stop", "base-s1")


def test_stop_says_that_nothing_runs(tmp_path: Path, planned: Plan) -> None:
    assert re.search(r"no study in \S+ is running", refusal(tmp_path, "stop"))
    assert "which is not running must be a running study; `ablate status`" in refusal(
        tmp_path, "stop", "sweep.name=synthetic-tiny"
    )
    assert refusal(tmp_path, "stop", "sweep.name=other").endswith("Nothing was stopped.")
    elsewhere(planned, 6 * SILENT_S)
    assert "pid 42 on node7 gave no heartbeat for 12 min" in refusal(tmp_path, "stop", "sweep.name=synthetic-tiny")


def test_logs_show_what_was_printed_and_the_error(tmp_path: Path, planned: Plan) -> None:
    folder = planned.trials[0].folder
    assert typed(tmp_path, "logs", "base-s1").stdout.startswith("base-s1 has no attempt yet.\n")
    folder.begin_attempt(1, "node7", 1)
    assert "has no output yet" in typed(tmp_path, "logs", "base-s1").stdout
    begin_log(folder.log_path, 1, "node7")
    append_log(folder.log_path, "a warning of http://me:secret@host/x\n" + marked("from a peer\n", 1))
    folder.write_error("it failed\n\nTraceback\n")
    said = typed(tmp_path, "logs", "base-s1").stdout
    assert "secret" not in said
    lines = said.splitlines()
    assert lines[0].startswith("--- attempt 1, ")
    assert lines[2:6] == ["[1] from a peer", "--- error.txt", "it failed", ""]
    assert lines[-1] == "Next: ablate status"
    followed = typed(tmp_path, "logs", "base-s1", "--follow")  # nothing runs it
    assert followed.stdout == said
    assert "Follows" not in followed.stderr
    assert "did you mean base-s1?" in refusal(tmp_path, "logs", "bases1")
    assert "is missing" in refusal(tmp_path, "logs")
    assert "must be one trial" in refusal(tmp_path, "logs", "base-s1", "big-s1")


def test_following_a_log_ends_with_the_trial(tmp_path: Path, planned: Plan, running: Runner) -> None:
    folder, study, steps = planned.trials[0].folder, study_in(tmp_path), iter(range(3))
    append_log(folder.log_path, "first\n")

    def pause(seconds: float) -> None:
        append_log(folder.log_path, f"line {next(steps)}\n")
        if folder.log_path.read_text().count("line") == 3:
            finish(planned.trials[0])

    text = "".join(shown_log(study, study.trials[0], follow=True, pause=pause))
    assert [line for line in text.splitlines() if not line.startswith("---")] == ["first", "line 0", "line 1", "line 2"]


def test_a_followed_log_shows_each_line_once_while_its_older_half_is_dropped(tmp_path: Path) -> None:
    path, numbers = tmp_path / "log.txt", iter(range(10**6))
    log, seen = FollowedLog(path), ""
    for _ in range(5):  # of more than a quarter of its length each, so that it is dropped between two looks
        for _ in range(11):
            append_log(path, "".join(f"{next(numbers):099}\n" for _ in range(1000)))
        seen += log.more()
    log.close()
    assert path.read_text().startswith("(earlier lines were dropped)")
    assert [int(line) for line in seen.splitlines()] == list(range(5 * 11 * 1000))


def test_a_log_that_another_machine_has_replaced_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On NFS the file that was open is stale then, and for a moment also its name."""

    def stale(*_: object) -> NoReturn:
        raise OSError(errno.ESTALE, "Stale file handle")

    path, numbers = tmp_path / "log.txt", iter(range(10**6))
    append_log(path, "".join(f"{next(numbers):099}\n" for _ in range(40_000)))
    log = FollowedLog(path)
    seen = log.more()
    append_log(path, "".join(f"{next(numbers):099}\n" for _ in range(4_000)))
    assert path.read_text().startswith("(earlier lines were dropped)")
    monkeypatch.setattr(followed_log, "shortened", stale)
    monkeypatch.setattr(FollowedLog, "_rest", lambda log: b"")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stale)
        more = log.more()
    assert more == ""
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", stale)
        more = log.more()
    monkeypatch.undo()
    seen += more + log.more()
    log.close()
    assert [int(line) for line in seen.splitlines()] == list(range(44_000))


def test_a_log_is_followed_until_a_trial_that_stops_elsewhere_has_stopped(tmp_path: Path, planned: Plan) -> None:
    runner, study, folder = elsewhere(planned, 5), study_in(tmp_path), planned.trials[0].folder
    request_stop(planned.folder, runner, None)

    def pause(seconds: float) -> None:
        append_log(folder.log_path, "the last line\n")
        folder.end_attempt(1, "interrupted")

    text = "".join(shown_log(study, study.trials[0], follow=True, pause=pause))
    assert text.splitlines()[-1] == "the last line"


def test_of_a_sweep_that_stops_no_trial_goes_on(tmp_path: Path, planned: Plan, running: Runner) -> None:
    request_stop(planned.folder, running, None)
    said = typed(tmp_path, "stop", "big-s1").stdout.splitlines()[0]
    assert said == f"The sweep (pid {running.pid} on {running.host}) stops after the current step, with a checkpoint"


def test_a_trial_that_alone_was_stopped_is_over(tmp_path: Path, planned: Plan, running: Runner) -> None:
    folder, study = planned.trials[0].folder, study_in(tmp_path)
    folder.begin_attempt(1, running.host, running.pid)
    assert "base-s1" in typed(tmp_path, "stop", "base-s1").stdout

    def pause(seconds: float) -> None:
        append_log(folder.log_path, "the last line\n")
        folder.end_attempt(1, "interrupted")

    text = "".join(shown_log(study, study.trials[0], follow=True, pause=pause))
    assert text.splitlines()[-1] == "the last line", "the sweep goes on, but not with this trial"
    assert "has stopped; the other trials go on" in typed(tmp_path, "stop", "base-s1").stdout


def test_a_log_keeps_its_newest_lines(tmp_path: Path) -> None:
    path, line = tmp_path / "log.txt", "x" * 999 + "\n"
    for number in range(5):
        append_log(path, line * 1000 + f"end {number}\n")
    assert path.stat().st_size < LONGEST
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("(earlier lines were dropped)", "end 4")
    assert {len(each) for each in lines[1:]} <= {999, 5}


PRINTS = """
import sys
from sweeps.events import Evaluating
from sweeps.running.printed import printing
def events():
    print(":actor_name:Worker"); print("one"); print("to stderr", file=sys.stderr); yield Evaluating(1)
    print("cut", end=""); yield Evaluating(2)
    print(" and whole"); raise ValueError("broken")
found = open(sys.argv[1], "w")
try:
    for event in printing(1, events()):
        found.write(repr(event) + "\\n")
except ValueError as error:
    found.write(str(error))
"""


def test_a_workers_prints_come_as_events_also_before_it_fails(tmp_path: Path) -> None:
    """As on Ray, where both streams of a worker are files."""
    found = tmp_path / "found"
    with (tmp_path / "out").open("w") as out, (tmp_path / "err").open("w") as err:
        subprocess.run([sys.executable, "-c", PRINTS, str(found)], stdout=out, stderr=err, check=True)
    assert found.read_text().splitlines() == [
        "Printed(rank=1, text='one\\nto stderr\\n')",
        "Evaluating(step=1)",
        "Evaluating(step=2)",
        "Printed(rank=1, text='cut and whole\\n')",
        "broken",
    ]
