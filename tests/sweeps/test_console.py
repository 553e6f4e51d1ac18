"""Output whose reader or terminal has left."""

import os
import pty
import subprocess
import sys

import pytest

PRINTING = """
import sys, time
from sweeps.console import OUT
OUT.print("first")
sys.stdin.readline()
OUT.print("second")
OUT.print("third")
sys.exit(7)
"""


@pytest.mark.parametrize("leaves", ["terminal", "pipe"])
def test_a_reader_that_leaves_ends_no_program(leaves: str) -> None:
    reader, writer = pty.openpty() if leaves == "terminal" else os.pipe()
    process = subprocess.Popen([sys.executable, "-c", PRINTING], stdin=subprocess.PIPE, stdout=writer)
    os.close(writer)
    assert b"first" in os.read(reader, 100)
    os.close(reader)
    process.communicate(b"\n")
    assert process.returncode == 7
