"""The time that is left: from measured paces and planned costs."""

import pytest

from sweeps.planning.settings import Cluster
from sweeps.running.forecast import Ongoing, seconds_left
from sweeps.running.resources import waiting_for


def test_nothing_is_said_before_a_pace_is_known() -> None:
    assert seconds_left([], [10.0]) is None
    assert seconds_left([Ongoing(0, 100, 0, running=True)], [10.0]) is None
    assert seconds_left([Ongoing(50, 50, 1.0, running=True)], []) is None, "the first second"


def test_the_last_trial_goes_on_at_its_own_pace() -> None:
    """Two slots made twice the effort per second that the last trial makes alone."""
    finished = [Ongoing(100, 0, 100, running=False)] * 4
    assert seconds_left([*finished, Ongoing(10, 90, 20, running=True)], []) == pytest.approx(180)


def test_the_last_trial_is_evaluated_after_its_training() -> None:
    assert seconds_left([Ongoing(10, 10, 10, running=True, after=7)], []) == pytest.approx(17)
    assert seconds_left([Ongoing(20, 0, 20, running=True, after=3)], []) == pytest.approx(3)


def test_waiting_trials_take_the_slots_that_become_free() -> None:
    running = [Ongoing(10, 10, 10, running=True), Ongoing(10, 30, 10, running=True)]
    assert seconds_left(running, [20.0]) == pytest.approx(30), "it fits beside the longer one"
    assert seconds_left(running, [20.0, 20.0]) == pytest.approx(50)
    assert seconds_left(running, [20.0, 20.0], overhead=5) == pytest.approx(55)


def test_costs_scale_the_pace_of_long_trials() -> None:
    """In the first minute only the longest rows have run; the others are a tenth of them."""
    running = [Ongoing(100, 900, 60, running=True)]
    assert seconds_left(running, [100.0] * 5) == pytest.approx(540 + 5 * 60)


def test_a_trial_that_starts_has_the_mean_pace() -> None:
    assert seconds_left([Ongoing(10, 0, 20, running=False), Ongoing(0, 30, 0, running=True)], []) == pytest.approx(60)


def test_a_wait_names_what_is_missing() -> None:
    cluster = Cluster("auto", workers=4, cpus_per_worker=2, gpus_per_worker=1.0, tokens_per_micro_batch=1)
    assert waiting_for(cluster, {"GPU": 2.0, "CPU": 64.0}) == "4 GPUs, 2 are free"
    assert waiting_for(cluster, {"GPU": 8.0, "CPU": 1.0}) == "8 CPUs, 1 is free"
    assert waiting_for(cluster, {}) == "4 GPUs, 0 are free"
    spread = "4 GPUs, 6 are free, but not where a whole worker group fits"
    assert waiting_for(cluster, {"GPU": 6.0, "CPU": 64.0}) == spread
