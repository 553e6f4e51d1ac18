"""One thread, so that results do not depend on the number of cores; GPU tests are skipped without a
GPU."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from small_trials import copy_data, prepared_text

from transformer.data.prepared import Prepared


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Prepared text whose targets are their sources: 60 pairs to train on, 20 and 5 to evaluate."""
    folder = tmp_path_factory.mktemp("copies")
    return prepared_text(
        copy_data(folder, (60, 20, 5), "abcdef", longest=8, vocab_size=270), folder
    )


@pytest.fixture(scope="session")
def as_two_workers() -> Iterator[Callable[..., None]]:
    """Calls a function with rank 0 and 1, each in a process. The two serve all tests: they import
    torch for seconds.

    A process takes a second call only after its first, which waits for the other worker.
    """
    with ProcessPoolExecutor(2, get_context("spawn")) as processes:

        def call(function: Callable[..., None], *arguments: Any) -> None:
            for future in [processes.submit(function, rank, *arguments) for rank in (0, 1)]:
                future.result(timeout=300)

        yield call
