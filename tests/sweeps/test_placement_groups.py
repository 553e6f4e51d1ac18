"""Six trials of two workers on four CPUs, one failing and one that loses a worker: no placement group is left."""

import subprocess
import sys
from pathlib import Path

import pytest
from faulty_task import reasons
from small_task import write_task

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
SWEEP = """
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
FAULT = """        if step == 3 and trial.config.model.size == 101 and trial.saved is None:
            if trial.rank == 1:
                __import__("os").kill(__import__("os").getpid(), 9)
            __import__("time").sleep(60)  # else rank zero may finish first
        if step == 3 and trial.config.model.size == 102:
            raise ValueError("broken")
"""
ROWS = {"dies": 101, "breaks": 102, "c": 103, "d": 104, "e": 105}


def test_no_placement_group_is_left(tmp_path: Path) -> None:
    begins = "        total +="
    rows = {
        f"conf/task/small/row/{name}.yaml": f"row: {{group: A, change: {name}}}\nmodel: {{size: {size}}}\n"
        for name, size in ROWS.items()
    }
    folder = write_task(tmp_path, {begins: FAULT + begins}, rows)
    words = ["task=small", "sweep.name=s", "train.steps=8", f"sweep.rows=[{','.join(['base', *ROWS])}]"]
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, "sweep", *words, "cluster.workers=2"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "left: []" in done.stdout, output
    assert "groups made: 0" not in done.stdout, output
    study = folder / "runs" / "s"
    ends = {name: reasons(study / f"{name}-s1")[-1] for name in ("base", *ROWS)}
    assert ends.pop("breaks") == "failed: ValueError: broken"
    assert set(ends.values()) == {"finished"}, output
    assert reasons(study / "dies-s1")[0].startswith("worker lost: worker 1 (pid")
