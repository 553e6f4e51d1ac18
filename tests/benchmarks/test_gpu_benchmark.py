"""The GPU benchmark without a GPU: its refusal, its workloads, and its table."""

import os
import subprocess
import sys
from functools import cache

import pytest

from benchmarks import gpu
from benchmarks.gpu import SIZES, Size

workload = cache(gpu.workload)


def test_without_a_gpu_it_refuses_in_one_line() -> None:
    blind = os.environ | {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "120"}
    command = [sys.executable, "-m", "benchmarks.gpu"]
    ended = subprocess.run(command, env=blind, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr == "Refused: torch finds no CUDA device here. Nothing was measured.\n"


@pytest.mark.parametrize("size", SIZES, ids=lambda size: size.name)
def test_a_size_trains_on_full_batches_and_every_micro_batch_has_a_bucket(size: Size) -> None:
    work = workload(size)
    budget = work.trial.train.tokens_per_batch
    assert budget == {"base": 25_000, "big": 25_000, "half": 4_000}[size.name]
    assert work.trial.model.d_model == {"base": 512, "big": 1024, "half": 256}[size.name]
    assert work.trial.train.precision == "bf16"
    assert {batch.shape for micro_batches in work.steps for batch in micro_batches} <= set(work.shapes)
    assert len(work.shapes) <= 32
    assert all(0.7 * budget < micro_batches[0].total_targets <= budget for micro_batches in work.steps)
    assert max(int(batch.target.max()) for micro_batches in work.steps for batch in micro_batches) < size.vocab_size
