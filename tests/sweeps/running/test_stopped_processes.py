"""A sweep is stopped for a minute, which is longer than a stall: nothing is lost or counts as hung."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons
from leftovers import check_no_locks, wait_for_end
from studies import Running, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE = 800, 0.5
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]", "sweep.stall_minutes=0.4"]
STOPPED_S = 60.0


def test_a_sweep_that_is_stopped_for_a_minute_goes_on(tmp_path: Path, furnish: Callable[[Path], Path]) -> None:
    folder = write_summing_task(furnish(tmp_path / "study"), "time.sleep(0.1)")
    running = Running.start("sweep", *WORDS, cwd=folder, trial=folder / "runs" / "s" / "base-s1")
    running.wait_for_step(6)
    running.suspend()
    time.sleep(STOPPED_S)
    os.kill(running.process.pid, signal.SIGCONT)
    code, output = running.finish()
    assert code == 0, output
    assert reasons(running.trial) == ["finished"], output
    assert [line["step"] for line in lines(running.trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"]
    assert json.loads((running.trial / "result.json").read_text())["scores"]["dev"]["score"] == STEPS * RATE
    assert newest_state(running.trial / "checkpoints") == (STEPS, STEPS * RATE)
    wait_for_end(folder)
    check_no_locks(running.trial.parent)
