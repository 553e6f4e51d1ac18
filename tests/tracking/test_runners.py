"""Processes announce themselves in a study's folder, and take requests to stop from there."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from tracking.runners import SILENT_S, Runner, announce, known_runners, request_stop, runners, stop_requests, withdraw


def runner(**changes: object) -> Runner:
    now = time.time()
    return replace(Runner(socket.gethostname(), os.getpid(), now, now, ("base-s1", "big-s1")), **changes)  # type: ignore[arg-type]


def test_a_process_is_seen_until_it_withdraws(tmp_path: Path) -> None:
    own, other = runner(waiting="4 GPUs, 2 are free"), runner(host="node/1", pid=7)
    for each in (own, other):
        announce(tmp_path, each)
    assert set(runners(tmp_path)) == {own, other}
    withdraw(tmp_path, own)
    assert runners(tmp_path) == [other]


def test_a_dead_process_and_a_silent_one_do_not_run(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead, silent = runner(pid=int(ended.stdout)), runner(host="node1", seen=time.time() - 2 * SILENT_S)
    for each in (dead, silent):
        announce(tmp_path, each)
    assert runners(tmp_path) == []
    assert set(known_runners(tmp_path)) == {dead, silent}
    withdraw(tmp_path, runner())
    assert known_runners(tmp_path) == [silent], "it may only be cut off"


def test_damaged_files_are_passed_over(tmp_path: Path) -> None:
    announce(tmp_path, own := runner())
    for name, text in (("a.json", "garbage"), ("b.json", "{}"), ("c.json", '{"host": 1, "pid": null}')):
        (tmp_path / ".running" / name).write_text(text)
    assert runners(tmp_path) == [own]


def test_requests_add_up(tmp_path: Path) -> None:
    own = runner()
    assert stop_requests(tmp_path, own) == ()
    request_stop(tmp_path, own, ["big-s1"])
    request_stop(tmp_path, own, ["base-s1"])
    assert stop_requests(tmp_path, own) == ("base-s1", "big-s1")
    request_stop(tmp_path, own, None)
    assert stop_requests(tmp_path, own) is None
    request_stop(tmp_path, own, ["base-s1"])
    assert stop_requests(tmp_path, own) is None, "everything stays everything"
    assert stop_requests(tmp_path, runner(pid=1)) == ()
