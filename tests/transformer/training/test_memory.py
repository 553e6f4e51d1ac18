"""Freed memory that stays: page faults are counted by the kernel."""

import resource
import sys
from pathlib import Path

import pytest
import torch

from transformer.training.memory import kept_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these options")
MIB = 2**20


def faults_of_blocks() -> int:
    """Pages that eight blocks of 16 MiB bring in, written and freed again."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(16 * MIB, dtype=torch.uint8) for _ in range(8)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_blocks_do_not_come_from_the_system_again() -> None:
    with kept_memory():
        kept = min(faults_of_blocks() for _ in range(5))  # what lies between them takes its place at first
    assert kept < 8 < 64 <= min(faults_of_blocks() for _ in range(5))


def test_what_was_kept_goes_back_in_the_end() -> None:
    with kept_memory():
        faults_of_blocks()
        kept = resident()
    assert resident() < kept - 64 * MIB


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
