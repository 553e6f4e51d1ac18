"""`ablate train` with two workers, really killed and interrupted: no process outlives its trial."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest
from small_text import TEXT
from studies import SMALL, Running, lines, wait_until
from typed import typed

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


def blocked(process: psutil.Process) -> set[int]:
    """The signals that the process never gets."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (mask,) = re.findall(r"^SigBlk:\s*(\w+)$", status, re.MULTILINE)
    return {number for number in range(1, 32) if int(mask, 16) >> (number - 1) & 1}


def test_a_signal_to_the_process_group_stops_both_after_the_same_step(peer: tuple[Running, psutil.Process]) -> None:
    """A terminal sends SIGINT for Ctrl-C and SIGHUP when it closes, and timeout(1) sends SIGTERM."""
    running, process = peer
    running.wait_for_step(50)
    assert blocked(process) >= {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    os.killpg(running.process.pid, signal.SIGINT)
    code, output = running.finish()
    assert code == 128 + signal.SIGINT, output
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
    "before": """
class Refusing(types.ModuleType):
    def __getattr__(self, name):
        raise RefusedError([Problem("data.train", "is empty", "must hold sentences")])
sys.modules["transformer.worker"] = Refusing("transformer.worker")
""",
    "after": """
import transformer.worker
def broken(*text): raise ValueError("no [/odd] text")
transformer.worker.prepare_here = broken
""",
}
PLANTED = """
import sys, types
if "--multiprocessing-fork" in sys.orig_argv:
    from transformer.schema import Problem, RefusedError
    exec({fault!r})
"""


def break_the_peer(folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python runs `sitecustomize.py` as it starts: here it breaks the second worker alone."""
    (folder / "sitecustomize.py").write_text(PLANTED.format(fault=FAULTS[fault]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))


def test_a_refusal_by_a_worker_before_they_have_met_refuses_the_run(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_the_peer(workplace, "before", monkeypatch)
    done = typed(workplace, "train", *WORDS)
    assert done.exit_code == 2, done.output
    assert "data.train is empty" in done.output
    attempts = lines(workplace / "runs" / "files-tiny" / "base-s1" / "attempts.jsonl")
    assert [line.get("reason") for line in attempts] == [None, "refused"]


def test_the_error_of_a_worker_is_reported_with_its_traceback(workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    break_the_peer(workplace, "after", monkeypatch)
    running = start(workplace)
    code, output = running.finish()
    assert code == 1, output
    assert "Traceback" not in output
    first, *rest = (running.trial / "error.txt").read_text().splitlines()
    assert re.match(r"RuntimeError: worker 1 \(pid \d+\) failed: ValueError: no \[/odd\] text", first), first
    assert first in output
    assert any("in _follow" in line for line in rest), "the worker's own traceback"
