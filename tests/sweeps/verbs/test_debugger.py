"""`breakpoint()` in the work: a sweep goes on and says so; in `train` the debugger opens, and
quitting interrupts."""

import subprocess
from pathlib import Path

import pytest
from served_commands import run_command
from small_task import write_task
from studies import allelse, command

LOOP = "        total += trial.config.train.rate * trial.seed\n"
NAME = "sweep.name=small"


def write(folder: Path, call: str) -> None:
    write_task(folder, {LOOP: f"        {call}\n{LOOP}"})


def typed_into(folder: Path, keys: str) -> subprocess.CompletedProcess[str]:
    """`allelse train`, with these lines typed into the debugger."""
    words = command("train", "task=small", "row=base", NAME)
    return run_command(words, folder, types=keys)


@pytest.mark.parametrize("call", ["breakpoint()", "__import__('pdb').set_trace()"])
def test_quitting_the_debugger_interrupts_the_trial_and_the_command_resumes_it(
    workplace: Path, call: str
) -> None:
    write(workplace, call)
    process = typed_into(workplace, "p step\nq\n")
    assert process.returncode == 130, process.stderr
    assert "(Pdb) 1" in process.stdout, "it stands in the user's own frame"
    trial = workplace / "runs/small/base-s1"
    assert not (trial / "error.txt").exists()
    assert "interrupted" in allelse("status", NAME, cwd=workplace).stdout
    resumed = typed_into(workplace, "c\n" * 8)
    assert (resumed.returncode, (trial / "result.json").exists()) == (0, True), resumed.stderr


@pytest.mark.ray
@pytest.mark.slow
def test_a_breakpoint_in_a_sweep_is_skipped_with_one_notice(workplace: Path) -> None:
    write(workplace, "breakpoint()")
    swept = allelse("sweep", "task=small", "sweep.rows=[base]", NAME, cwd=workplace)
    assert swept.returncode == 0, swept.stderr
    assert swept.stdout.count("breakpoint() was skipped: it needs a terminal") == 1
    assert "allelse train task=small sweep.name=small row=base" in swept.stdout
