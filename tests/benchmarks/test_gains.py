"""Disabling an optimization to measure its gain changes only the speed."""

from dataclasses import replace

import pytest
import torch

from benchmarks.gains import WAYS, Way, drawn_workload, gains
from benchmarks.timing import Rounds
from benchmarks.workloads import Size, Workload
from transformer.training.state import start
from transformer.training.train import make_forward_backward, train_step
from transformer.training.worker_group import Worker

TOY = Size(
    "toy, fp32",
    ("scale=tiny", "model.p_drop=0", "train.label_smoothing=0", "model.max_positions=64"),
    100,
    tokens=100,
    batches=2,
    rounds=Rounds(1, 1),
)


@pytest.fixture(scope="module")
def toy() -> Workload:
    work = drawn_workload(TOY)
    return replace(work, batches=work.batches[:1])


def first_loss(work: Workload) -> float:
    state = start(work.trial, work.size.vocab_size, torch.device("cpu"))
    return train_step(
        state, work.batches, work.trial, Worker(), make_forward_backward(state.model, work.trial)
    ).loss.item()


@pytest.mark.parametrize("way", [pytest.param(way, id=name) for name, way in WAYS.items()])
def test_training_stays_the_same_with_each_optimization_disabled(toy: Workload, way: Way) -> None:
    with way():
        found = first_loss(toy)
    assert found == pytest.approx(first_loss(toy), rel=1e-5)


def test_gains_have_one_line_per_optimization_after_one_for_all(toy: Workload) -> None:
    lines = gains(toy)
    assert [line[1] for line in lines] == ["all enabled", *WAYS, "Adam: fused"]
    assert lines[0][3] == ""
    assert all(line[3].endswith("%") for line in lines[1:])
