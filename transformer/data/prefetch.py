"""Prefetching: batches are made ahead of their steps, so that no step waits for its data."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

STEPS_AHEAD = 8
"""Steps whose batches are ready or in the making: enough to hide the shuffle at the start of an epoch."""


def prefetch(make: Callable[[int], T], steps: Iterable[int]) -> Generator[T, None, None]:
    """``make(step)`` for each step, in order, computed in a thread while earlier results are used."""
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        waiting: deque[Future[T]] = deque()
        try:
            for step in steps:
                waiting.append(thread.submit(make, step))
                if len(waiting) == STEPS_AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            thread.shutdown(cancel_futures=True)
