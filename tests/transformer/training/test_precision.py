"""The matmuls of a trial, and that float32 stays float32; freed memory stays in the process, by its page faults."""

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from small_trials import SMALL

from transformer.config import ModelConfig, Precision
from transformer.training.precision import FLOAT32_LIKE, WORTH_IT, fast_matmuls, kept_memory, matmul_error

CPU = torch.device("cpu")
WIDE = replace(SMALL, d_model=WORTH_IT)
MATMUL = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]


def test_float32_matmuls_stay_float32_in_any_library() -> None:
    assert matmul_error() < FLOAT32_LIKE
    with fast_matmuls(WIDE, "fp32", CPU):
        assert matmul_error() < FLOAT32_LIKE


def test_the_check_would_detect_bfloat16() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert matmul_error() > 10 * FLOAT32_LIKE


def test_only_wide_models_in_float32_switch_and_the_switch_is_restored() -> None:
    before = MATMUL.fp32_precision
    MATMUL.fp32_precision = "bf16"
    expected = "bf16" if matmul_error() < FLOAT32_LIKE else before  # a CPU with AMX rounds
    MATMUL.fp32_precision = before
    seen = []
    cases: list[tuple[ModelConfig, Precision]] = [(SMALL, "fp32"), (WIDE, "bf16"), (WIDE, "fp32")]
    for model, precision in cases:
        with fast_matmuls(model, precision, CPU):
            seen.append(MATMUL.fp32_precision)
        assert MATMUL.fp32_precision == before
    assert seen == [before, before, expected]


def test_a_machine_that_would_round_does_not_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformer.training.precision.FLOAT32_LIKE", 0.0)  # as if every error were too large
    before = MATMUL.fp32_precision
    with fast_matmuls(WIDE, "fp32", CPU):
        assert MATMUL.fp32_precision == before


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
