"""Two processes that can be workers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest


@pytest.fixture(scope="session")
def as_two_workers() -> Iterator[Callable[..., None]]:
    """Calls a function with rank 0 and 1, each in a process. The two serve all tests: they import torch for seconds.

    A process takes a second call only after its first, which waits for the other worker.
    """
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:

        def call(function: Callable[..., None], *arguments: Any) -> None:
            for future in [processes.submit(function, rank, *arguments) for rank in (0, 1)]:
                future.result(timeout=300)

        yield call
