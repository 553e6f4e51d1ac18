"""Freed memory stays in the process: the kernel counts page faults, in a fresh process without free blocks."""

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pytest
import torch

from transformer.training.precision import kept_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only glibc has these options")
MIB = 2**20
T = TypeVar("T")


def test_blocks_are_not_fetched_from_the_system_again_until_kept_memory_is_returned_at_the_end() -> None:
    (before, within, after), faults = in_a_process(both)
    assert faults < 8
    assert within > before + 64 * MIB
    assert after < within - 64 * MIB


def in_a_process(measure: Callable[[], T]) -> T:
    with ProcessPoolExecutor(1, get_context("spawn")) as processes:
        return processes.submit(measure).result()


def both() -> tuple[tuple[int, int, int], int]:
    return resident_before_within_and_after(), faults_while_kept()


def faults_while_kept() -> int:
    with kept_memory():
        return min(faults_of_blocks() for _ in range(5))  # the first rounds also allocate other memory


def faults_of_blocks() -> int:
    """Page faults of eight blocks of 16 MiB, written and freed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [torch.ones(16 * MIB, dtype=torch.uint8) for _ in range(8)]
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident_before_within_and_after() -> tuple[int, int, int]:
    before = resident()
    with kept_memory():
        faults_of_blocks()
        within = resident()
    return before, within, resident()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
