"""The machine's clock is set forth and back by an hour and a half while a sweep runs: nothing is lost or absurd.

libfaketime changes the clock of every process of the sweep. Clocks that count from the start of the machine go on.
"""

import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons
from studies import Running, ablate, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE = 400, 0.5
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "train.every=4", "sweep.rows=[base]"]
JUMP_S = 5400


@dataclass
class Clock:
    """The clock that the processes of ``env`` see, as an offset in a file."""

    file: Path

    @property
    def env(self) -> dict[str, str]:
        (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")  # Debian's package libfaketime
        return os.environ | {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }

    def set(self, seconds: int) -> None:
        before = self.file.with_suffix(".part")
        before.write_text(f"{seconds:+d}\n")
        before.replace(self.file)


def standing(folder: Path, clock: Clock) -> dict[str, object]:
    """Of the only trial, as ``ablate status`` shows it."""
    done = ablate("status", "sweep.name=s", "--json", cwd=folder, env=clock.env)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)
    return dict(found)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_clock_that_is_set_changes_nothing(workers: int, tmp_path: Path, furnish: Callable[[Path], Path]) -> None:
    folder = write_summing_task(furnish(tmp_path / "study"), "time.sleep(0.1)")
    clock, trial = Clock(tmp_path / "clock"), folder / "runs" / "s" / "base-s1"
    clock.set(0)
    began = time.monotonic()
    words = [*WORDS, f"cluster.workers={workers}"]
    running = Running.start("sweep", *words, cwd=folder, trial=trial, env=clock.env)
    running.wait_for_step(20)
    for offset, until in ((JUMP_S, 60), (-JUMP_S, 100), (0, 140)):
        clock.set(offset)
        running.wait_for_step(until)
        found = standing(folder, clock)
        assert (found["state"], found["note"]) == ("running", "")
        assert 0 <= float(str(found["seconds_left"])) < JUMP_S / 2
    code, output = running.finish()
    took = time.monotonic() - began
    assert code == 0, output
    assert not re.search(r"-\d", re.sub(r"base-s1|http\S+", "", output)), output
    assert re.search(r"1 of 1 finished.*", output)
    assert reasons(trial) == ["finished"]
    result = json.loads((trial / "result.json").read_text())
    assert result["scores"]["dev"]["score"] == STEPS * RATE * workers
    assert newest_state(trial / "checkpoints") == (STEPS, STEPS * RATE * workers)
    assert 0.1 * STEPS * 0.9 < result["seconds"] < took
    journal = lines(trial / "journal.jsonl")
    assert [line["step"] for line in journal] == list(range(4, STEPS + 1, 4))
    times = [line["ts"] for line in journal]
    assert max(times) - min(times) > JUMP_S, "the clock was set"
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]
