"""A process of a sweep is stopped for a minute, which is longer than a stall: nothing is lost or counts as hung."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from faulty_task import newest_state, reasons
from leftovers import check_no_locks, wait_for_end
from studies import Running, lines, mlflow_runs
from summing_task import write_summing_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS, RATE = 800, 0.5
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]"]
STOPPED_S = 60.0
STALL_MINUTES = {"driver": 0.4, "syncer": 0.4, "worker": 10}
"""A worker that stands still for longer than this counts as hung, and should."""


def process_of(running: Running, who: str) -> psutil.Process:
    if who == "driver":
        return psutil.Process(running.process.pid)
    return (running.workers() if who == "worker" else running.processes("tracking.sync"))[-1]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("who", STALL_MINUTES)
def test_a_process_that_is_stopped_for_a_minute_goes_on(
    who: str, workers: int, tmp_path: Path, furnish: Callable[[Path], Path]
) -> None:
    folder = write_summing_task(furnish(tmp_path / "study"), "time.sleep(0.1)")
    words = [*WORDS, f"cluster.workers={workers}", f"sweep.stall_minutes={STALL_MINUTES[who]}"]
    running = Running.start("sweep", *words, cwd=folder, trial=folder / "runs" / "s" / "base-s1")
    running.wait_for_step(6)
    stopped = process_of(running, who)
    stopped.suspend()
    time.sleep(STOPPED_S)
    stopped.resume()
    code, output = running.finish()
    assert code == 0, output
    assert reasons(running.trial) == ["finished"], output
    assert [line["step"] for line in lines(running.trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"]
    assert json.loads((running.trial / "result.json").read_text())["scores"]["dev"]["score"] == STEPS * RATE * workers
    assert newest_state(running.trial / "checkpoints") == (STEPS, STEPS * RATE * workers)
    wait_for_end(folder)
    check_no_locks(running.trial.parent)
