"""Six trials of two workers on four CPUs: one fails, one loses a worker, one is stopped. No placement group is left."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, rows_of_sizes, undisturbed, write_faulty_task
from leftovers import check_no_locks, wait_for_end
from studies import Running, ablate, lines, mlflow_runs, newest_checkpoint

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
STEPS = 8
COUNTING = """
import time

import ray
from sweeps.cli import main
from sweeps.preflight import machine

machine.cpus = lambda: 4
shut_down = ray.shutdown

def left():
    return [group["state"] for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]

def look_then_shut_down():
    if ray.is_initialized():
        deadline = time.monotonic() + 60
        while left() and time.monotonic() < deadline:
            time.sleep(0.2)
        print("groups made:", len(ray.util.placement_group_table()), "left:", left(), flush=True)
    shut_down()

ray.shutdown = look_then_shut_down
main()
"""
FAULTS = """
def fault(trial, step):
    meet(trial)
    size = trial.config.model.size
    if step != 5 or (HERE / "calm").exists():
        return
    if size == 101 and trial.rank == 0 and first("waits"):
        time.sleep(10**6)  # until the loss of the other worker ends it
    if size == 101 and trial.rank == 1:
        while not (HERE / "was-waits").exists():
            time.sleep(0.05)
        if first("dies"):
            os.kill(os.getpid(), signal.SIGKILL)
    if size == 102:
        raise ValueError("broken")
    while size == 103 and not trial.stopping():
        time.sleep(0.05)
"""
SIZES = {"dies": 101, "breaks": 102, "stops": 103, "d": 104, "e": 105}
ROWS = ["base", *SIZES]
WORDS = ["task=small", "sweep.name=s", f"train.steps={STEPS}"]


def start(folder: Path) -> Running:
    """Start the sweep; what is watched is the trial that is to be stopped."""
    words = ["sweep", *WORDS, f"sweep.rows=[{','.join(ROWS)}]", "cluster.workers=2"]
    process = subprocess.Popen(
        [sys.executable, "-c", COUNTING, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    return Running(process, folder / "runs" / "s" / "stops-s1")


def check_groups(output: str) -> None:
    assert "left: []" in output, output
    assert "groups made: 0" not in output, output


def test_no_placement_group_is_left(
    tmp_path: Path, furnish: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_faulty_task(furnish(tmp_path / "study"), "fault(trial, step)", FAULTS, rows_of_sizes(SIZES))
    trials = {row: folder / "runs" / "s" / f"{row}-s1" for row in ROWS}
    running = start(folder)
    running.wait_for_step(2)
    asked = ablate("stop", "stops-s1", "sweep.name=s", cwd=folder)
    assert asked.returncode == 0, asked.stderr
    assert "stops after the current step, with a checkpoint; the other trials go on" in asked.stdout
    assert asked.stdout.endswith("Next: ablate status sweep.name=s\n")
    code, output = running.finish()
    assert code == 1, output
    check_groups(output)
    assert "stops-s1: stopping after the current step, with a checkpoint, as `ablate stop` asked" in output
    assert output.endswith("Next: ablate sweep sweep.name=s cluster.workers=2\n")
    ends = {row: reasons(trial)[-1] for row, trial in trials.items()}
    assert (ends.pop("breaks"), ends.pop("stops")) == ("failed: ValueError: broken", "interrupted")
    assert set(ends.values()) == {"finished"}, output
    assert reasons(trials["dies"])[0].startswith("worker lost: worker 1 (pid")
    assert newest_checkpoint(trials["stops"]) == 6, "the stop came in step 5, before a checkpoint"

    (folder / "calm").touch()
    code, output = start(folder).finish()
    assert code == 0, output
    check_groups(output)
    monkeypatch.chdir(folder)
    for row, trial in trials.items():
        finished = undisturbed(folder, WORDS, row, tmp_path / row)
        assert reasons(trial)[-1] == "finished"
        assert json.loads((trial / "result.json").read_text())["scores"] == finished.scores
        assert newest_state(trial / "checkpoints") == newest_state(tmp_path / row)
        assert [line["step"] for line in lines(trial / "journal.jsonl")] == list(range(2, STEPS + 1, 2))
    assert [status for _, status in mlflow_runs(folder / "runs")] == ["FINISHED"] * len(ROWS)
    wait_for_end(folder)
    check_no_locks(folder / "runs" / "s")
