"""Output whose reader or terminal has left, or whose disk is full."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from small_task import write_task
from studies import command

PRINTING = """
import sys
from contextlib import nullcontext
from rich.live import Live
from sweeps.console import ERR, OUT
out = ERR if sys.argv[1] == "error" else OUT
with Live("a live table", console=out, auto_refresh=False) if sys.argv[1] == "live" else nullcontext():
    out.print("first")
    sys.stdin.readline()
    out.print("second")
    out.print("third")
sys.exit(7)
"""


@pytest.mark.parametrize(("leaves", "shown"), [("terminal", "live"), ("pipe", "plain"), ("pipe", "error")])
def test_a_reader_that_leaves_ends_no_program(leaves: str, shown: str) -> None:
    reader, writer = pty.openpty() if leaves == "terminal" else os.pipe()
    stream = {"stderr" if shown == "error" else "stdout": writer}
    process = subprocess.Popen([sys.executable, "-c", PRINTING, shown], stdin=subprocess.PIPE, **stream)  # type: ignore[call-overload]
    os.close(writer)
    shown_text = b""
    while b"first" not in shown_text:
        shown_text += os.read(reader, 100)
    os.close(reader)
    process.communicate(b"\n")
    assert process.returncode == 7


def test_a_full_disk_behind_the_output_ends_no_training(workplace: Path) -> None:
    write_task(workplace)
    words = command("train", "task=small", "row=base")
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(words, cwd=workplace, stdout=full, stderr=full, timeout=600, check=False).returncode == 0
    assert (workplace / "runs" / "small-full" / "base-s1" / "result.json").exists()
