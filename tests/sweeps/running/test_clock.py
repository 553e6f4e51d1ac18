"""The clock is set forth and back by an hour and a half while a sweep runs: nothing is lost or absurd.

It is the clock of all Python processes, or of our commands alone: then workers and syncer keep the true time, as on
other machines. A file tells them the time. Clocks that count from the start of the machine go on, as they do when a
clock is set. Ray's own core keeps the true time: under libfaketime (0.9.10), which would change it, Ray's processes do
not start, and every sleep of Python fails. `datetime.now` keeps it, too: with another class in its place, pandas
crashes.
"""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, train_to
from leftovers import check_no_locks, wait_for_end
from studies import Running, allelse, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE, EVERY = 200, 0.5, 4
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", f"train.every={EVERY}", "sweep.rows=[base]"]
JUMP_S = 5400
OURS = "sweeps.cli"
"""In the command lines of the sweep's own process, and of those that look at it."""
SET = """
import sys, time
from pathlib import Path

real, offset = time.time_ns, Path({offset!r})
if {of!r} in " ".join(sys.orig_argv):
    time.time_ns = lambda: real() + int(offset.read_text()) * 10**9
    time.time = lambda: time.time_ns() / 1e9
"""


class Clock:
    """The clock of the processes with ``env`` whose command line has ``of``."""

    def __init__(self, folder: Path, of: str) -> None:
        folder.mkdir()
        self._offset = folder / "offset"
        self.set(0)
        (folder / "sitecustomize.py").write_text(
            SET.format(offset=str(self._offset), of=of)
        )  # each Python imports it first
        self.env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    def set(self, seconds: int) -> None:
        before = self._offset.with_suffix(".part")
        before.write_text(f"{seconds}")
        before.replace(self._offset)


def standing(folder: Path, env: dict[str, str] | None) -> dict[str, object]:
    """Of the only trial, as ``allelse status`` shows it."""
    done = allelse("status", "sweep.name=s", "--json", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    return dict(found)


@pytest.mark.parametrize(("of", "workers"), [(OURS, 2)])
def test_a_clock_that_is_set_changes_nothing(
    workers: int, of: str, tmp_path: Path, furnish: Callable[[Path], Path]
) -> None:
    folder = write_summing_task(furnish(tmp_path / "study"), "wait_for_leave(trial, step)")
    clock, trial, began = Clock(tmp_path / "clock", of), folder / "runs" / "s" / "base-s1", time.monotonic()
    clock.set(JUMP_S)
    train_to(20, folder)  # whose report tells of the checkpoint before it
    words = [*WORDS, f"cluster.workers={workers}"]
    running = Running.start("sweep", *words, cwd=folder, trial=trial, env=clock.env)
    running.wait_for_step(20 - EVERY)
    for offset, step in ((-JUMP_S, 60), (0, 100), (JUMP_S, 140)):
        clock.set(offset)
        train_to(step, folder)
        running.wait_for_step(step - EVERY)
        for env in (clock.env, None):  # also as a machine with the true time sees it
            found = standing(folder, env)
            assert (found["state"], found["step"], found["note"]) == ("running", step, "")
            assert 0 <= float(str(found["seconds_left"])) < JUMP_S / 2
    train_to(STEPS, folder)
    code, output = running.finish()
    took = time.monotonic() - began
    assert code == 0, output
    assert not re.search(r"\s-\d|\d h\b", output), "a negative time, or one of hours"
    assert reasons(trial) == ["finished"]
    result = json.loads((trial / "result.json").read_text())
    assert result["scores"]["dev"]["score"] == STEPS * RATE * workers
    assert newest_state(trial / "checkpoints") == (STEPS, STEPS * RATE * workers)
    assert 0 < result["seconds"] < took
    journal = lines(trial / "journal.jsonl")
    assert [line["step"] for line in journal] == list(range(EVERY, STEPS + 1, EVERY))
    attempt, _ = lines(trial / "attempts.jsonl")
    assert attempt["ts"] > time.time() + JUMP_S / 2, "the clock of the sweep's own process was set"
    times = [line["ts"] for line in journal]
    assert (max(times) - min(times) > JUMP_S) == (not of), "that of the workers was set, or was not"
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]
    wait_for_end(folder)
    check_no_locks(trial.parent)
