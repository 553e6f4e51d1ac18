"""`ablate train` with two workers, really killed and interrupted: no process outlives its trial."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from studies import SMALL, Running, lines, wait_until

pytestmark = pytest.mark.slow
WORDS = [*SMALL, "train.steps=4000", "train.checkpoint_every=50", "cluster.workers=2"]


def start(folder: Path) -> Running:
    return Running.start("train", *WORDS, cwd=folder, trial=folder / "runs" / "synthetic-tiny" / "base-s1")


def peers(running: Running) -> list[psutil.Process]:
    return running.processes("spawn_main")


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def peer(tmp_path: Path) -> tuple[Running, psutil.Process]:
    """A trial whose second worker has just been started: the workers have not met."""
    running = start(tmp_path)
    wait_until(lambda: bool(peers(running)), "the second worker")
    return running, peers(running)[0]


def test_no_worker_outlives_a_trial_that_is_killed_before_they_have_met(peer: tuple[Running, psutil.Process]) -> None:
    running, process = peer
    running.kill()
    wait_until(lambda: gone(process), "the second worker's end")
    assert not peers(running)


def test_ctrl_c_in_a_terminal_stops_both_after_the_same_step(peer: tuple[Running, psutil.Process]) -> None:
    running, process = peer
    running.wait_for_step(50)
    os.killpg(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 130, output
    assert "Traceback" not in output
    (step,) = map(int, re.findall(r"base-s1 goes on from step (\d+)$", output, re.MULTILINE))
    assert lines(running.trial / "journal.jsonl")[-1]["step"] == step
    assert list((running.trial / "checkpoints").glob(f"*/a1/step-{step}/manifest.json"))
    assert [line.get("reason") for line in lines(running.trial / "attempts.jsonl")] == [None, "interrupted"]
    assert gone(process)


def test_a_killed_worker_is_named_with_its_signal(peer: tuple[Running, psutil.Process]) -> None:
    running, process = peer
    running.wait_for_step(50)
    process.kill()
    code, output = running.finish()
    assert code == 1, output
    error = (running.trial / "error.txt").read_text()
    assert f"worker 1 (pid {process.pid}) was killed by SIGKILL" in error.splitlines()[0]
    assert f"worker 1 (pid {process.pid}) was killed by SIGKILL" in output
