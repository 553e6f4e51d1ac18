"""`ablate train` whose workers hang: it fails with their stacks, and goes on once it is typed again."""

import re
from pathlib import Path

import pytest
from faulty_task import newest_state, reasons, undisturbed
from leftovers import check_no_locks
from small_task import write_task
from small_text import TEXT
from studies import SMALL, Running, ablate, lines, wait_until

WORDS = ["task=small", "sweep.name=s", "train.steps=8"]
HANGS = {
    "waits": "__import__('time').sleep(10**6)",
    "blocks signals": "__import__('signal').pthread_sigmask(0, {10}); __import__('time').sleep(10**6)",
}


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("how", [pytest.param("waits", marks=pytest.mark.everyday), "blocks signals"])
def test_a_lone_worker_that_hangs_fails_with_its_stack_and_resumes(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A main thread that lets no signal through cannot end in order: the process ends with the same record."""
    begins = "        total +="
    planted = f"        if step == 5 and not __import__('pathlib').Path('calm').exists():\n            {HANGS[how]}\n"
    folder = write_task(tmp_path / "study", {begins: planted + begins})
    done = ablate("train", *WORDS, "sweep.stall_minutes=0.2", cwd=folder)
    trial = folder / "runs" / "s" / "base-s1"
    assert done.returncode == 1, done.stdout + done.stderr
    cause, *stacks = (trial / "error.txt").read_text().splitlines()
    assert "no worker gave a sign of life for 0.2 min (sweep.stall_minutes)" in cause
    assert cause in done.stdout
    check_no_locks(trial.parent)
    assert any(re.search(r"small\.py.* in work", line) for line in stacks), stacks
    (folder / "calm").touch()
    again = ablate("train", *WORDS, cwd=folder)
    assert again.returncode == 0, again.stdout + again.stderr
    monkeypatch.chdir(folder)
    undisturbed(folder, WORDS, "base", tmp_path / "alone")
    assert newest_state(trial / "checkpoints") == newest_state(tmp_path / "alone")
    assert [line["step"] for line in lines(trial / "journal.jsonl")] == [2, 4, 6, 8]
    assert reasons(trial)[-1] == "finished"


@pytest.mark.slow
def test_work_that_ends_the_process_fails_its_trial(tmp_path: Path) -> None:
    folder = write_task(tmp_path, {"        total +=": "        raise SystemExit(0)\n        total +="})
    done = ablate("train", *WORDS, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "SystemExit: 0" in (folder / "runs" / "s" / "base-s1" / "error.txt").read_text()


@pytest.mark.slow
@pytest.mark.faults
def test_a_stopped_worker_ends_the_trial_with_the_stacks_of_all(workplace: Path) -> None:
    words = [*SMALL, *TEXT, "train.steps=4000", "train.checkpoint_every=50", "cluster.workers=2"]
    trial = workplace / "runs" / "files-tiny" / "base-s1"
    running = Running.start("train", *words, "sweep.stall_minutes=0.5", cwd=workplace, trial=trial)
    running.wait_for_step(50)
    (peer,) = running.processes("spawn_main")
    peer.suspend()
    code, output = running.finish()
    assert code == 1, output
    error = (trial / "error.txt").read_text()
    assert "no worker gave a sign of life for 0.5 min" in error.splitlines()[0]
    assert re.search(r"worker 0:\n(.*\n)*.* in (agreed|finish)", error), error
    assert "worker 1:\nthe process is stopped, so it has no stack" in error
    wait_until(lambda: not peer.is_running() or peer.status() == "zombie", "the stopped worker's end")
