"""Processes announce themselves in a study's folder, and take requests to stop from there."""

import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from machines import needs_namespaces

from tracking.process import has_ended, is_alive, own_birth
from tracking.runners import (
    SILENT_S,
    Runner,
    announce,
    known_runners,
    request_stop,
    runners,
    seconds_left,
    stop_requests,
    withdraw,
)


def runner(**changes: object) -> Runner:
    now = time.time()
    return replace(Runner(socket.gethostname(), os.getpid(), now, now, ("base-s1", "big-s1")), **changes)  # type: ignore[arg-type]


def test_the_time_left_is_that_of_the_last_process_if_all_know_theirs() -> None:
    short, long = runner(left=180.0), runner(left=36000.0)
    assert 35990 < (seconds_left([short, long]) or 0) <= 36000
    assert seconds_left([short, runner(left=None)]) is None, "the other one may take ten hours"
    assert seconds_left([runner(left=0.0)]) is None, "what is evaluated now has no known end"
    assert seconds_left([]) is None


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


def test_a_pid_of_another_container_with_this_host_name_is_not_asked_for(tmp_path: Path) -> None:
    """Its pid may belong to another process here, or to none."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    alive = runner(pid=int(ended.stdout), birth=f"0123456789ab-{int(ended.stdout)}-77")
    silent = runner(birth=f"0123456789ab-{os.getpid()}-77", seen=time.time() - 2 * SILENT_S)
    for each in (alive, silent):
        announce(tmp_path, each)
    assert runners(tmp_path) == [alive]
    withdraw(tmp_path, runner(birth=own_birth()))
    assert set(known_runners(tmp_path)) == {alive, silent}, "nobody here knows whether they ended"


def test_the_birth_of_a_process_is_its_own_for_each_use_of_a_pid() -> None:
    own = own_birth()
    assert not has_ended(own)
    space, pid, ticks = own.split("-")
    younger = f"{space}-{pid}-{int(ticks) + 1}"
    assert has_ended(younger)
    assert not is_alive(os.getpid(), time.time(), younger)
    assert is_alive(os.getpid(), time.time() - 10 * 86400, own), "whatever the clock says"


UNSHARED = """
import subprocess, sys
from tracking.process import has_ended, own_birth
print(own_birth(), [has_ended(birth) for birth in sys.argv[1:]])
"""


@needs_namespaces
def test_nobody_in_another_container_knows_whether_a_process_has_ended() -> None:
    space, pid, ticks = (own := own_birth()).split("-")
    words = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", UNSHARED]
    words += [own, f"{space}-{pid}-{int(ticks) + 1}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    inside, found = done.stdout.split(maxsplit=1)
    assert inside.split("-")[0] != space
    assert found.strip() == "[False, False]"
