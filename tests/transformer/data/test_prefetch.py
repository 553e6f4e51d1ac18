"""Prefetched batches come in order, and a reader that stops leaves no thread behind."""

import threading

import pytest

from transformer.data.batches import STEPS_AHEAD, prefetch


def test_every_item_comes_once_and_in_order() -> None:
    assert list(prefetch(lambda step: step * step, range(3, 40))) == [step * step for step in range(3, 40)]
    assert list(prefetch(lambda step: step, range(2))) == [0, 1]
    assert list(prefetch(lambda step: step, range(0))) == []


def test_items_are_made_ahead_of_their_use_but_not_without_limit() -> None:
    made, enough = [], threading.Event()

    def make(step: int) -> int:
        made.append(step)
        if step == STEPS_AHEAD - 1:
            enough.set()
        return step

    items = prefetch(make, range(1000))
    assert next(items) == 0
    assert enough.wait(timeout=30)  # without any request for them
    assert next(items) == 1
    items.close()
    assert len(made) <= STEPS_AHEAD + 1


def test_an_error_reaches_the_reader_at_its_step() -> None:
    def make(step: int) -> float:
        return 1 / (step - 3)

    items = prefetch(make, range(9))
    assert [next(items) for _ in range(3)] == [1 / -3, 1 / -2, -1.0]
    with pytest.raises(ZeroDivisionError):
        next(items)


def test_a_reader_that_stops_ends_the_thread() -> None:
    items = prefetch(lambda step: step, range(1000))
    next(items)
    assert any(thread.name.startswith("prefetch") for thread in threading.enumerate())
    items.close()
    assert not any(thread.name.startswith("prefetch") for thread in threading.enumerate())
