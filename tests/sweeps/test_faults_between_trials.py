"""Processes that wait for the next trial take it; if they die meanwhile, that trial runs all the same."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from leftovers import check_no_locks, wait_for_end
from same_results import check_same_results
from small_task import write_task
from studies import allelse, lines

from sweeps.preflight import machine

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.faults]
SWEEP = """
import signal
import time
from pathlib import Path
import psutil
from sweeps.cli import main
from sweeps.running.tune import TuneCallback
from tracking.liveness import request_stop, runners

kept, left, end = TuneCallback.on_trial_complete, {titles!r}, signal.Signals({signal})

def kill_first(self, iteration, trials, trial, **info):
    kept(self, iteration, trials, trial, **info)
    if left:
        title = left.pop()
        killed = [p for p in psutil.Process().children(recursive=True) if any(title in word for word in p.cmdline())]
        assert killed, title
        for process in killed:
            process.send_signal(end)
        if end == signal.SIGKILL:
            psutil.wait_procs(killed, timeout=60)
        for sweep in runners(Path("runs/s")) if {stopped!r} else []:
            request_stop(Path("runs/s"), sweep, {stopped!r})
        while not self.queue.stopping.trials.issuperset({stopped!r}):
            time.sleep(0.1)

TuneCallback.on_trial_complete = kill_first
main()
"""
TOTAL = "    total = trial.saved.state"
NOTED = f"""\
    import os
    with open("workers", "a") as file:
        print(trial.config.model.kind, os.getpid(), file=file)
{TOTAL}"""


@pytest.mark.parametrize(
    ("title", "end"),
    [
        ("WorkerActor", signal.SIGSTOP),
        ("ray::TrialProcess", signal.SIGKILL),
    ],
)
def test_the_next_trial_runs_in_a_new_process(
    title: str, end: signal.Signals, tmp_path: Path, furnish: Callable[[Path], Path]
) -> None:
    """Tune keeps the trial's process for the next trial, and that one keeps its workers."""
    folder = write_task(furnish(tmp_path / "study"))
    words = ["sweep", "task=small", "sweep.name=s", "sweep.seeds=[1,2]", "sweep.rows=[base,square]"]
    words += ["cluster.cpus_per_worker=2", "sweep.stall_minutes=0.2"]  # one trial after another
    script = SWEEP.format(titles=[title], stopped=[], signal=int(end))
    done = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 of 4 finished" in done.stdout
    assert "Trials did not complete" not in done.stderr
    for name in ("base-s1", "base-s2", "square-s1", "square-s2"):
        trial = folder / "runs" / "s" / name
        *lost, last = [line["reason"] for line in lines(trial / "attempts.jsonl") if line.get("end")]
        assert (last, [reason for reason in lost if not reason.startswith("worker lost")]) == ("finished", [])
    wait_for_end(folder)
    check_no_locks(folder / "runs" / "s")
    alone = write_task(furnish(tmp_path / "alone"))
    done = allelse(*words, cwd=alone)
    assert done.returncode == 0, done.stdout + done.stderr
    check_same_results(folder / "runs" / "s", alone / "runs" / "s")


def test_the_next_trial_runs_in_the_process_of_the_last_one(tmp_path: Path, furnish: Callable[[Path], Path]) -> None:
    """A new one would take seconds to import torch."""
    folder = write_task(furnish(tmp_path / "study"), {TOTAL: NOTED})
    one_by_one = f"cluster.cpus_per_worker={machine.cpus()}"
    done = allelse("sweep", "task=small", "sweep.name=s", "sweep.rows=[base,square]", one_by_one, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (first, pid), (second, same) = (line.split() for line in (folder / "workers").read_text().splitlines())
    assert (first, second, same) == ("round", "square", pid)
