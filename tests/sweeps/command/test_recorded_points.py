"""The steps at which points of a command's output stand in the journal."""

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.command_task.trial.points import Recording
from tracking.written.watch import WrittenMetrics

Report = tuple[int, str, float]
PARTS = [
    "{'loss': 0.9, 'epoch': 0.5}",
    "{'loss': 0.8, 'epoch': 0.97}",
    "{'eval_loss': 0.85, 'epoch': 1.0}",
    "{'loss': 0.7, 'epoch': 1.5}",
    "{'eval_loss': 0.75, 'epoch': 2.0}",
]
LAST_PART = [
    "{'loss': 0.9, 'epoch': 8.0}",
    "{'loss': 0.8, 'epoch': 9.0}",
    "{'loss': 0.7, 'epoch': 9.4}",
]
DURATIONS = ["Epoch 1/2 loss: 0.9", "sec/epoch: 5.25", "Epoch 2/2 loss: 0.8", "time per epoch: 5.5"]
NOT_PLANNED = math.inf


def reports(lines: Sequence[str], folder: Path, *, looks: int, counts: bool) -> list[Report]:
    """What stands in the journal after as many looks at the output, each at its share of lines."""
    journal: list[Report] = []

    def report(step: int, values: dict[str, float]) -> None:
        journal.extend((step, name, value) for name, value in values.items())

    output = folder / "output.txt"
    output.touch()
    trial: Any = SimpleNamespace(report=report, notice=pytest.fail)
    recording = Recording([], trial, start=0, counts=counts, planned=NOT_PLANNED)
    written = WrittenMetrics(folder / "out", output)
    share = math.ceil(len(lines) / looks)
    for first in range(0, len(lines), share):
        with output.open("a") as file:
            file.writelines(f"{line}\n" for line in lines[first : first + share])
        recording.report(written.poll())
    return [line for line in journal if line[1].endswith("loss")]


@pytest.mark.parametrize("looks", [1, 2, 10])
def test_parts_of_epochs_are_counted_however_often_the_output_is_read(
    looks: int, tmp_path: Path
) -> None:
    assert sorted(reports(PARTS, tmp_path, looks=looks, counts=True)) == [
        (1, "loss", 0.9),
        (2, "eval_loss", 0.85),
        (2, "loss", 0.8),
        (3, "eval_loss", 0.75),
        (3, "loss", 0.7),
    ]


@pytest.mark.parametrize("looks", [1, 2, 10])
def test_parts_are_counted_on_from_whole_epochs(looks: int, tmp_path: Path) -> None:
    steps = [step for step, _, _ in reports(LAST_PART, tmp_path, looks=looks, counts=True)]
    assert steps == [8, 9, 10]


@pytest.mark.parametrize("looks", [1, 10])
@pytest.mark.parametrize("counts", [True, False])
def test_durations_of_epochs_are_no_parts_of_epochs(
    looks: int, counts: bool, tmp_path: Path
) -> None:
    journal = reports(DURATIONS, tmp_path, looks=looks, counts=counts)
    assert journal == [(1, "loss", 0.9), (2, "loss", 0.8)]


def test_where_steps_are_epochs_a_part_belongs_to_the_epoch_before_it(tmp_path: Path) -> None:
    """A command that says how many steps it trains, or where its checkpoints are, counts itself."""
    journal = reports(PARTS, tmp_path, looks=10, counts=False)
    assert journal == [(1, "eval_loss", 0.85), (1, "loss", 0.7), (2, "eval_loss", 0.75)]
