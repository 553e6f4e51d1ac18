"""`ablate train` with two workers, really killed and interrupted: no process outlives its trial."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from small_text import TEXT
from studies import SMALL, Running, lines, wait_until

pytestmark = pytest.mark.slow
WORDS = [*SMALL, *TEXT, "train.steps=4000", "train.checkpoint_every=50", "cluster.workers=2"]


def start(folder: Path) -> Running:
    return Running.start("train", *WORDS, cwd=folder, trial=folder / "runs" / "files-tiny" / "base-s1")


def peers(running: Running) -> list[psutil.Process]:
    return running.processes("spawn_main")


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.fixture
def peer(workplace: Path) -> tuple[Running, psutil.Process]:
    """A trial whose second worker has just been started: the workers have not met."""
    running = start(workplace)
    wait_until(lambda: bool(peers(running)), "the second worker")
    return running, peers(running)[0]


def test_no_worker_outlives_a_trial_that_is_killed_before_they_have_met(peer: tuple[Running, psutil.Process]) -> None:
    running, process = peer
    running.kill()
    wait_until(lambda: gone(process), "the second worker's end")
    assert not peers(running)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_process_group_stops_both_after_the_same_step(
    peer: tuple[Running, psutil.Process], number: signal.Signals
) -> None:
    """A terminal sends one for Ctrl-C and when it closes, and timeout(1) does too."""
    running, process = peer
    running.wait_for_step(50)
    os.killpg(running.process.pid, number)
    code, output = running.finish()
    assert code == 128 + number, output
    assert "Traceback" not in output
    (step,) = map(int, re.findall(r"base-s1 resumes from step (\d+)$", output, re.MULTILINE))
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


FAULTS = {
    "before": "sys.modules['transformer.worker'] = None",
    "after": "def broken(*text): raise ValueError('no [/odd] text')",
    "refused": "def broken(*text): raise RefusedError([Problem('data.train', 'is empty', 'must hold sentences')])",
}
PLANTED = """
import sys
if "--multiprocessing-fork" in sys.orig_argv:
    import transformer.worker
    from transformer.schema import Problem, RefusedError
    broken = transformer.worker.prepare_here
    {fault}
    transformer.worker.prepare_here = broken
"""


def run_with_a_broken_peer(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, int, str]:
    """Python runs `sitecustomize.py` as it starts: here it breaks the second worker alone."""
    (folder / "sitecustomize.py").write_text(PLANTED.format(fault=FAULTS[fault]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    running = start(folder)
    code, output = running.finish()
    assert "Traceback" not in output
    return running.trial, code, output


@pytest.mark.parametrize(
    ("fault", "cause"), [("before", "ModuleNotFoundError: import of"), ("after", "ValueError: no [/odd] text")]
)
def test_the_error_of_a_worker_is_reported_with_its_traceback(
    workplace: Path, fault: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, code, output = run_with_a_broken_peer(workplace, fault, monkeypatch)
    assert code == 1, output
    first, *rest = (trial / "error.txt").read_text().splitlines()
    assert re.match(rf"RuntimeError: worker 1 \(pid \d+\) failed: {re.escape(cause)}", first), first
    assert first in output
    assert any("in _follow" in line for line in rest), "the worker's own traceback"


def test_a_refusal_by_a_worker_refuses_the_run(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial, code, output = run_with_a_broken_peer(workplace, "refused", monkeypatch)
    assert code == 2, output
    assert "data.train is empty" in output
    assert [line.get("reason") for line in lines(trial / "attempts.jsonl")] == [None, "refused"]
