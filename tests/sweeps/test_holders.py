"""Who holds a trial: the message to a second sweep on the same study."""

import json
import os
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit
from signal import SIGINT
from typing import Any

import pytest
from small_task import write_task
from studies import Running, wait_until
from study_on_disk import wait_for_line

from sweeps.planning.holders import holder_of, holding
from sweeps.planning.trial_lock import trial_lock
from tracking.trial_folder import TrialFolder
from transformer.schema import RefusedError


def write(locks: Path, **fields: Any) -> Path:
    content = {"host": "node-b", "pid": 7, "since": 0.0, "command": "ablate sweep", "trials": ["base-s1"]} | fields
    path = locks / f"{content['host']}-{content['pid']}.json"
    path.write_text(json.dumps(content))
    return path


def test_a_refusal_names_the_process_its_machine_its_start_and_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "argv", ["/usr/bin/ablate", "sweep", "sweep.rows=[base, big]", "tracking.uri=http://u:p@h"]
    )
    folder, locks = TrialFolder(tmp_path / "base-s1"), tmp_path / ".locks"
    with trial_lock(folder), holding(locks, ["base-s1"]):
        with pytest.raises(RefusedError) as caught, trial_lock(folder):
            pass
        (problem,) = caught.value.problems
        assert problem.key == "base-s1"
        assert problem.found.startswith(f"is being run by pid {os.getpid()} on {socket.gethostname()} since ")
        assert problem.found.endswith("s ago): ablate sweep 'sweep.rows=[base, big]' 'tracking.uri=http://***@h'")
        assert holder_of(locks, "big-s1") == "another process"
    assert not list(locks.glob("*.json"))


def test_the_newest_holder_on_another_machine_is_named(tmp_path: Path) -> None:
    write(tmp_path, pid=7, since=time.time() - 7800)
    write(tmp_path, pid=8, since=time.time() - 60, trials=["big-s1"])
    write(tmp_path, host="node-c", pid=9, since=time.time() - 8000)
    assert holder_of(tmp_path, "base-s1").startswith("pid 7 on node-b since ")
    assert "(2 h 10 min ago)" in holder_of(tmp_path, "base-s1")


def test_a_dead_process_of_this_machine_is_forgotten(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = write(tmp_path, host=socket.gethostname(), pid=ended.pid, since=time.time())
    assert holder_of(tmp_path, "base-s1") == "another process"
    with holding(tmp_path, ["big-s1"]):
        assert not left.exists()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"host": 1}'])
def test_a_damaged_file_names_nobody(tmp_path: Path, content: str) -> None:
    (tmp_path / "node-b-7.json").write_text(content)
    assert holder_of(tmp_path, "base-s1") == "another process"


MANY = """
import resource, sys
from pathlib import Path
from filelock import FileLock
from sweeps.running.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
allow_open_files(1040)
locks = [FileLock(Path(sys.argv[1]) / str(number)) for number in range(1040)]
print(len([lock.acquire() for lock in locks]))
"""


TOO_MANY = """
import resource
from sweeps.running.open_files import allow_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 1024))
allow_open_files(1040)
"""


def test_more_locks_than_a_hard_limit_allows_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", TOO_MANY], capture_output=True, text=True, check=False, timeout=300)
    assert "RefusedError: ulimit -Hn: is 1024, but 1040 trials to run need 1240 open files" in done.stderr


@pytest.mark.ray
def test_a_sweep_of_more_trials_than_files_may_be_open_begins(tmp_path: Path) -> None:
    """As in a shell whose limit is 1 024, below which a sweep would hold a lock for each trial."""
    write_task(tmp_path)
    limited = Running.start(
        *("sweep", "task=small", "sweep.name=many", "sweep.rows=[base]", f"sweep.seeds={[*range(1, 1101)]}"),
        cwd=tmp_path,
        trial=tmp_path / "runs" / "many" / "base-s1",
        before=partial(setrlimit, RLIMIT_NOFILE, (256, getrlimit(RLIMIT_NOFILE)[1])),
    )
    wait_for_line(limited, "1100 of 1100 trials to run")
    wait_until(lambda: limited.ended() or (limited.trial / "result.json").exists(), "the first result")
    limited.process.send_signal(SIGINT)
    code, output = limited.finish()
    assert code == 130, output
    assert "Traceback" not in output


def test_a_thousand_trials_are_locked_at_once_under_a_low_limit(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MANY, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout.split() == ["1040"], done.stderr
