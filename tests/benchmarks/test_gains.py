"""What is taken back to measure its gain changes speed alone."""

from dataclasses import replace

import pytest
import torch

from benchmarks.gains import WAYS, Way, drawn_workload, gains
from benchmarks.timing import Rounds
from benchmarks.workloads import Size, Workload
from transformer.training.parallel import Worker
from transformer.training.train import make_forward_backward, start, train_step

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
def test_each_way_taken_back_trains_the_same(toy: Workload, way: Way) -> None:
    with way():
        found = first_loss(toy)
    assert found == pytest.approx(first_loss(toy), rel=1e-5)


def test_a_line_for_each_way_and_one_for_all_of_them(toy: Workload) -> None:
    lines = gains(toy)
    assert [line[1] for line in lines] == ["as it is", *WAYS, "Adam: fused"]
    assert lines[0][3] == ""
    assert all(line[3].endswith("%") for line in lines[1:])
