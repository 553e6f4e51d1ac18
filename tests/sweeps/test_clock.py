"""The clock is set forth and back by an hour and a half while a sweep runs: nothing is lost or absurd.

Every Python process of the sweep, and of the commands that watch it, has its clock from a file. Clocks that count from
the start of the machine go on, as they do when a clock is set. Ray's own core keeps the real clock: libfaketime, which
would change it, makes every sleep of Python fail (0.9.10).
"""

import json
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons
from studies import Running, ablate, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE, EVERY = 200, 0.5, 4
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", f"train.every={EVERY}", "sweep.rows=[base]"]
JUMP_S = 5400


SET = """
import time
from pathlib import Path

real, offset = time.time, Path({offset!r})
time.time = lambda: real() + float(offset.read_text())
"""


WAITS = """
def wait_for_leave(step):
    while step > int(Path(__file__).with_name("leave").read_text()):
        time.sleep(0.05)
"""


class Clock:
    """The clock of all processes with ``env``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._offset = folder / "offset"
        self.set(0)
        (folder / "sitecustomize.py").write_text(SET.format(offset=str(self._offset)))  # each Python imports it first
        self.env = os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}

    def set(self, seconds: int) -> None:
        before = self._offset.with_suffix(".part")
        before.write_text(f"{seconds}")
        before.replace(self._offset)


def standing(folder: Path, clock: Clock) -> dict[str, object]:
    """Of the only trial, as ``ablate status`` shows it."""
    done = ablate("status", "sweep.name=s", "--json", cwd=folder, env=clock.env)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    return dict(found)


def train_to(step: int, folder: Path) -> None:
    """Let the trial go on to this step, and no further."""
    before = folder / "leave.part"
    before.write_text(f"{step}")
    before.replace(folder / "leave")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_clock_that_is_set_changes_nothing(workers: int, tmp_path: Path, furnish: Callable[[Path], Path]) -> None:
    folder = write_summing_task(furnish(tmp_path / "study"), "wait_for_leave(step)", WAITS)
    clock, trial, began = Clock(tmp_path / "clock"), folder / "runs" / "s" / "base-s1", time.monotonic()
    train_to(20, folder)  # whose report tells of the checkpoint before it
    words = [*WORDS, f"cluster.workers={workers}"]
    running = Running.start("sweep", *words, cwd=folder, trial=trial, env=clock.env)
    running.wait_for_step(20 - EVERY)
    for offset, step in ((JUMP_S, 60), (-JUMP_S, 100), (0, 140)):
        clock.set(offset)
        train_to(step, folder)
        running.wait_for_step(step - EVERY)
        found = standing(folder, clock)
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
    times = [line["ts"] for line in journal]
    assert max(times) - min(times) > JUMP_S, "the clock was set"
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]
