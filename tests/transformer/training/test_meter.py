"""The rates of training, from counts and times that are known."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_trials import random_pairs, small_trial

from transformer.cost import training_flops
from transformer.data.batches import Batch, TrainingBatches, collate
from transformer.training.meter import Meter, Step, rates
from transformer.training.worker_group import Worker

PAIRS = random_pairs(6, longest=12)


def micro_batches() -> list[Batch]:
    """The two halves of one batch; each knows the lengths of the whole one."""
    indices = np.arange(6)
    return [collate(PAIRS, indices, part, 2) for part in range(2)]


def test_rates_are_counts_over_the_time_between_two_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr("transformer.training.meter.time.perf_counter", lambda: clock[0])
    config = small_trial()
    batches = TrainingBatches(PAIRS, 1000, config.model.max_positions, 1)
    meter = Meter(config, 30, batches, Worker(), began=clock[0])
    for loss, norm in ((3.0, 1.0), (1.0, 5.0)):
        meter.add(Step(torch.tensor(loss), torch.tensor(norm)), micro_batches(), waited=0.25)
    clock[0] = 104.0
    metrics = meter.read(2)
    targets = sum(len(PAIRS.target[number]) for number in range(6))
    cells = sum(batch.target.numel() for batch in micro_batches())
    assert metrics["train/loss"] == 2.0
    assert metrics["train/gradient_norm"] == 3.0
    assert metrics["train/tokens_per_s"] == 2 * targets / 4
    assert metrics["train/padded_tokens_per_s"] == 2 * cells / 4
    assert metrics["train/data_wait"] == 0.5 / 4
    lengths = micro_batches()[0].lengths
    expected = 2 * training_flops(config.model, 30, lengths) / 4
    assert metrics["train/flops_per_s"] == pytest.approx(expected)
    assert "train/mfu" not in metrics, "no table lists this device"


@pytest.mark.parametrize(
    ("name", "world", "precision", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", 1, "bf16", {"peak": 989e12}),
        ("NVIDIA H100 PCIe", 1, "bf16", {"peak": 756e12}),
        ("NVIDIA H100 80GB HBM3", 2, "bf16", {"peak": 2 * 989e12}),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 1, "bf16", {}),
        ("NVIDIA H100 80GB HBM3", 1, "fp32", {}),
        ("Tesla P100-PCIE-16GB", 8, "fp32", {"sustained": 8 * 9.5e12}),
    ],
)
def test_the_rates_of_devices_are_those_of_the_longest_name(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    world: int,
    precision: str,
    expected: dict[str, float],
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    worker: Any = SimpleNamespace(device=torch.device("cuda"), world=world)
    assert rates(worker, small_trial(precision=precision)) == expected
