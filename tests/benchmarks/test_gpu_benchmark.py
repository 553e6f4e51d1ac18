"""The workloads of the GPU benchmark."""

from functools import cache

import pytest

from benchmarks import gpu
from benchmarks.gpu import SIZES, Size

workload = cache(gpu.workload)


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
