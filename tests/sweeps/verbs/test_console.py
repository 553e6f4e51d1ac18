"""Output whose reader or terminal has left, or whose disk is full."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from faulty_task import reasons, train_to, write_paced_task
from studies import command, wait_until

PRINTING = """
import sys
from contextlib import nullcontext
from rich.live import Live
from sweeps.console import OUT
with Live("a live table", console=OUT, auto_refresh=False) if sys.argv[1] == "live" else nullcontext():
    OUT.print("first")
    sys.stdin.readline()
    OUT.print("second")
    OUT.print("third")
sys.exit(7)
"""


@pytest.mark.parametrize(("leaves", "shown"), [("terminal", "live"), ("pipe", "plain")])
def test_a_reader_that_leaves_ends_no_program(leaves: str, shown: str) -> None:
    reader, writer = pty.openpty() if leaves == "terminal" else os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PRINTING, shown], stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    shown_text = b""
    while b"first" not in shown_text:
        shown_text += os.read(reader, 100)
    os.close(reader)
    process.communicate(b"\n")
    assert process.returncode == 7


def test_a_refusal_has_its_exit_code_where_no_process_reads_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    refused = subprocess.run(command("train", "row=none"), cwd=tmp_path, stderr=writer, timeout=600, check=False)
    os.close(writer)
    assert refused.returncode == 2


def test_a_full_disk_behind_the_output_ends_no_training_and_a_signal_keeps_its_exit_code(workplace: Path) -> None:
    write_paced_task(workplace)
    train_to(5, workplace)
    trial = workplace / "runs" / "small-full" / "base-s1"
    with Path("/dev/full").open("w") as full:
        words = command("train", "task=small", "row=base", "train.steps=50")
        process = subprocess.Popen(words, cwd=workplace, stdout=full, stderr=full)
        wait_until(lambda: (trial / "journal.jsonl").exists() or process.poll() is not None, "training")
        process.terminate()
        assert process.wait(600) == 143
        assert reasons(trial) == ["interrupted"]
        train_to(50, workplace)
        assert subprocess.run(words, cwd=workplace, stdout=full, stderr=full, timeout=600, check=False).returncode == 0
    assert (trial / "result.json").exists()
