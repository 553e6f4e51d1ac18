"""Output whose reader or terminal has left."""

import os
import pty
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("shown", ["live", "plain"])
@pytest.mark.parametrize("leaves", ["terminal", "pipe"])
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
