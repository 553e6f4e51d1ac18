"""Random numbers of a loop of one's own: a killed trial draws those of one that was not."""

import random
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from killed_trial import KILLED, total, trained

from sweeps.random_states import random_states, set_random_states

LOOP = """\
import random

import numpy as np
import torch
from torch.nn import functional

from allelse import Metric, task


@task(Metric("total", better="up", set="test", decimals=12))
def run(trial, *, width: int = 8, steps: int = 40):
    torch.manual_seed(trial.seed)
    np.random.seed(trial.seed)
    random.seed(trial.seed)
    points = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(points, (points[:, 0] > 0).long())
    loader = torch.utils.data.DataLoader(data, batch_size=10, shuffle=True)
    hidden = torch.nn.Sequential(torch.nn.Linear(2, width), torch.nn.ReLU())
    net = torch.nn.Sequential(hidden, torch.nn.Dropout(0.1), torch.nn.Linear(width, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    step = 0
    if trial.saved:
        step = trial.saved.step
        net.load_state_dict(trial.saved.state)
    while step < steps:
        for points, labels in loader:
            step += 1
            noise = np.random.normal(scale=0.1) + random.gauss(0, 0.1)
            loss = functional.cross_entropy(net(points + noise), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            trial.stopping()
        trial.report(step, {"train/loss": loss.item()})
        trial.checkpoint(step, net.state_dict(), random=RANDOM)
    return sum(values.double().abs().sum().item() for values in net.parameters())
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The total of a loop that nothing interrupts: what it saves changes nothing."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "run.py").write_text(LOOP.replace("RANDOM", "True"))
    assert trained(folder, "run", "whole") == 0
    return total(folder, "whole")


@pytest.mark.slow
@pytest.mark.parametrize("is_random", [True, False])
def test_a_killed_loop_over_a_shuffled_loader_ends_with_the_same_weights_if_random(
    tmp_path: Path, is_random: bool, undisturbed: float
) -> None:
    (tmp_path / "run.py").write_text(LOOP.replace("RANDOM", str(is_random)))
    (tmp_path / "killed_once.py").write_text(KILLED)
    assert trained(tmp_path, "killed_once", "killed") == -signal.SIGKILL
    assert trained(tmp_path, "killed_once", "killed") == 0
    assert (total(tmp_path, "killed") == undisturbed) is is_random


def draws() -> list[float]:
    random_draws = [random.random(), random.gauss(0, 1)]
    return [*random_draws, np.random.normal(), np.random.rand(), torch.rand(()).item()]


def test_each_generator_goes_on_from_its_state() -> None:
    draws()
    states = random_states()
    expected = draws()
    draws()
    set_random_states(states)
    assert draws() == expected


def test_packages_that_the_program_has_not_imported_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert {*random_states()} == {"python", "numpy"}
