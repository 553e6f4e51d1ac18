"""The sweep's process and the syncer are stopped for longer than a stall: nothing is lost or counts as hung."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from faulty_task import newest_state, reasons, undisturbed, write_slow_task
from studies import Running, lines, mlflow_runs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 200
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}", "sweep.rows=[base]"]
STALL_S = 24.0


@pytest.mark.parametrize("who", ["driver", "syncer"])
def test_a_process_that_is_stopped_for_a_while_goes_on(
    who: str, tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_slow_task(furnish(tmp_path / "study"))
    words = [*WORDS, f"sweep.stall_minutes={STALL_S / 60}"]
    running = Running.start("sweep", *words, cwd=folder, trial=folder / "runs" / "s" / "base-s1")
    running.wait_for_step(6)
    driver = psutil.Process(running.process.pid)
    stopped = driver if who == "driver" else running.processes("tracking.sync")[0]
    stopped.suspend()
    time.sleep(1.5 * STALL_S)
    stopped.resume()
    code, output = running.finish()
    assert code == 0, output
    assert reasons(running.trial) == ["finished"], output
    assert [line["step"] for line in lines(running.trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"]
    monkeypatch.chdir(folder)
    finished = undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert json.loads((running.trial / "result.json").read_text())["scores"] == finished.scores
    assert newest_state(running.trial / "checkpoints") == newest_state(tmp_path / "alone")
