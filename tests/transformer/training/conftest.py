"""A real S3 server on this machine; a folder, memory or bucket for checkpoints; two processes that can be workers."""

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fsspec
import pytest
from moto.server import ThreadedMotoServer

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The URL of a bucket, reached through environment variables, like any user's."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "nobody")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("checkpoints")
        yield "s3://checkpoints"
    server.stop()


@pytest.fixture(params=["folder", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A separate place for each test."""
    return str(tmp_path / "checkpoints") if request.param == "folder" else f"memory://checkpoints/{next(NUMBERS)}"


@pytest.fixture(params=["folder", "memory", "s3"])
def any_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same for what servers do in their own ways: write, list and remove."""
    if request.param == "folder":
        return str(tmp_path / "checkpoints")
    root = "memory://checkpoints" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{root}/trial-{next(NUMBERS)}"


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
