"""`allelse train` that hangs: it fails with its stacks in log.txt, and goes on once it is typed
again."""

import re
from pathlib import Path

import pytest
from faulty_task import check_as_undisturbed
from leftovers import check_no_locks
from small_task import write_task
from studies import allelse
from typed import typed

WORDS = ["task=small", "sweep.name=s", "train.steps=8", "tracking=off"]
HANGS = "__import__('time').sleep(10**6)"


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.everyday
def test_a_lone_worker_that_hangs_fails_with_its_stack_and_resumes(tmp_path: Path) -> None:
    anchor = "        total +="
    hang = (
        "        if step == 5 and not __import__('pathlib').Path('calm').exists():\n      "
        f"      {HANGS}\n"
    )
    folder = write_task(tmp_path / "study", {anchor: hang + anchor})
    process = allelse("train", *WORDS, "sweep.stall_minutes=0.1", cwd=folder)
    trial = folder / "runs" / "s" / "base-s1"
    assert process.returncode == 1, process.stdout + process.stderr
    cause, *_ = (trial / "error.txt").read_text().splitlines()
    assert "no worker gave a sign of life for 0.1 min (sweep.stall_minutes)" in cause
    assert cause in process.stdout
    check_no_locks(trial.parent)
    assert re.search(r"small\.py.* in work", (trial / "log.txt").read_text())
    (folder / "calm").touch()
    outcome = typed(folder, "train", *WORDS)
    assert outcome.exit_code == 0, outcome.output
    check_as_undisturbed(folder, WORDS, 8, tmp_path / "alone")


@pytest.mark.parametrize("error", ["SystemExit: 0", "GeneratorExit: 0"])
def test_work_that_ends_the_process_fails_its_trial(tmp_path: Path, error: str) -> None:
    raised = error.replace(": ", "(") + ")"
    folder = write_task(tmp_path, {"        total +=": f"        raise {raised}\n        total +="})
    assert typed(folder, "train", *WORDS).exit_code == 1
    assert error in (folder / "runs" / "s" / "base-s1" / "error.txt").read_text()
