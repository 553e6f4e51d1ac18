"""When the workers of a trial count as hanging. Without a cluster no count is ever heard."""

import time

from studies import wait_until

from sweeps.running.signs_of_life import Watch
from sweeps.running.silence import Silence


def test_silent_workers_have_stalled_after_the_given_time() -> None:
    watch = Watch(["a", "b"], stall_s=0.5)
    watch.heard(0)
    assert not watch.stalled([0, 1])
    wait_until(lambda: watch.stalled([0, 1]), "the stall")


def test_before_the_first_sign_more_time_is_allowed() -> None:
    """A worker imports torch, which takes long on a slow machine."""
    counts = [0]
    silence = Silence(1, 0.2, lambda rank: counts[rank], starting_s=1.0)
    ended = time.monotonic() + 0.6
    while time.monotonic() < ended:
        assert not silence.stalled([0])
        time.sleep(0.01)
    counts[0] = 1
    assert not silence.stalled([0])
    began = time.monotonic()
    wait_until(lambda: silence.stalled([0]), "the stall")
    assert time.monotonic() - began >= 0.2


def test_a_late_first_sign_is_a_sign_of_life() -> None:
    """Else the process is killed just when it has begun."""
    counts: list[int | None] = [None]
    silence = Silence(1, 1.0, lambda rank: counts[rank], starting_s=1.0)
    ended = time.monotonic() + 0.9
    while time.monotonic() < ended:
        assert not silence.stalled([0])
        time.sleep(0.01)
    counts[0] = 1
    ended = time.monotonic() + 0.5
    while time.monotonic() < ended:
        assert not silence.stalled([0])
        time.sleep(0.01)


def test_time_in_which_nobody_looked_does_not_count() -> None:
    """The sweep itself was stopped: its workers waited for it."""
    watch = Watch(["a"], stall_s=0.2)
    time.sleep(0.5)
    assert not watch.stalled([0])


def test_one_worker_that_is_heard_keeps_the_others() -> None:
    watch = Watch(["a", "b"], stall_s=0.5)
    ended = time.monotonic() + 2
    while time.monotonic() < ended:
        watch.heard(1)
        assert not watch.stalled([0, 1])
        time.sleep(0.01)
    wait_until(lambda: watch.stalled([0]), "the stall of the first, once the second has finished")


def test_workers_that_have_all_finished_do_not_stall() -> None:
    watch = Watch(["a"], stall_s=0.1)
    ended = time.monotonic() + 0.5
    while time.monotonic() < ended:
        assert not watch.stalled([])
        time.sleep(0.01)
