"""What a sweep says of trials that wait for CPUs or GPUs: only after a while, and until one runs."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from sweeps.planning.settings import Cluster
from sweeps.running.resources import Wait

WAITING, RUNNING, ENDED = (SimpleNamespace(status=status) for status in ("PENDING", "RUNNING", "TERMINATED"))


class Sweep:
    """A clock that a test sets, and a cluster whose free GPUs it sets; ``asked`` counts the questions to Ray."""

    now, gpus, asked = 1000.0, 2.0, 0

    def free(self) -> dict[str, float]:
        self.asked += 1
        return {"CPU": 8.0, "GPU": self.gpus}


@pytest.fixture
def sweep(monkeypatch: pytest.MonkeyPatch) -> Sweep:
    made = Sweep()
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    monkeypatch.setattr(ray, "available_resources", made.free)
    return made


@pytest.fixture
def wait(sweep: Sweep) -> Wait:
    """Of trials of four workers with a GPU each, since the sweep's time 1000."""
    return Wait(Cluster(None, 4, 1, 1.0, 25_000))


def words(wait: Wait, sweep: Sweep, after_s: float, *trials: Any) -> str:
    sweep.now = 1000 + after_s
    return wait.words(list(trials))


def test_a_wait_is_explained_after_half_a_minute_until_a_trial_runs(sweep: Sweep, wait: Wait) -> None:
    assert words(wait, sweep, 29, WAITING, ENDED) == ""
    assert sweep.asked == 0
    assert words(wait, sweep, 31, WAITING, ENDED) == "4 GPUs, 2 are free"
    assert words(wait, sweep, 32, WAITING, RUNNING) == ""
    assert words(wait, sweep, 61, WAITING) == "", "it waits since 32"
    assert words(wait, sweep, 63, WAITING) == "4 GPUs, 2 are free"
    assert words(wait, sweep, 64, ENDED) == ""


def test_ray_is_asked_only_every_few_seconds(sweep: Sweep, wait: Wait) -> None:
    assert words(wait, sweep, 31, WAITING) == "4 GPUs, 2 are free"
    sweep.gpus = 1
    assert words(wait, sweep, 35, WAITING) == "4 GPUs, 2 are free"
    assert words(wait, sweep, 37, WAITING) == "4 GPUs, 1 is free"
    sweep.gpus = 8
    assert words(wait, sweep, 43, WAITING) == "4 GPUs, 8 are free, but not where a whole worker group fits"
    assert sweep.asked == 3
