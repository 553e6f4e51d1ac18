"""A worker that hangs while it evaluates is replaced, like one that hangs in a step."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, undisturbed
from leftovers import check_no_locks, wait_for_end
from small_task import write_task
from studies import allelse, mlflow_runs

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
WORDS = ["task=small", "sweep.name=s"]
EVALUATES = "    trial.evaluated("
HANGS_ONCE = """\
    import pathlib, time
    hung = pathlib.Path(__file__).with_name("hung")
    if trial.rank == 0 and not hung.exists():
        hung.touch()
        time.sleep(10**6)
"""


@pytest.mark.parametrize("workers", [2])
def test_a_worker_that_hangs_while_it_evaluates_is_replaced(
    workers: int, tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_task(furnish(tmp_path / "study"), {EVALUATES: HANGS_ONCE + EVALUATES})
    trial = folder / "runs" / "s" / "base-s1"
    more = ["sweep.rows=[base]", "sweep.stall_minutes=0.3", f"cluster.workers={workers}"]
    done = allelse("sweep", *WORDS, *more, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    silent = "worker lost: no worker gave a sign of life for 0.3 min (sweep.stall_minutes)"
    assert reasons(trial) == [silent, "finished"]
    assert re.search(r"small\.py.* in work", (trial / "log.txt").read_text())
    assert mlflow_runs(folder / "runs") == [("base s1", "FINISHED")]
    wait_for_end(folder)
    check_no_locks(trial.parent)
    monkeypatch.chdir(folder)
    finished = undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert json.loads((trial / "result.json").read_text())["scores"] == finished.scores
    assert newest_state(trial / "checkpoints") == newest_state(tmp_path / "alone")
