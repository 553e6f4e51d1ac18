"""A real S3 server on this machine, and a folder, memory or bucket for checkpoints."""

import itertools
from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture(params=["folder", "memory", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A separate place for each test."""
    if request.param == "folder":
        return str(tmp_path / "checkpoints")
    root = "memory://checkpoints" if request.param == "memory" else request.getfixturevalue("s3")
    return f"{root}/trial-{next(NUMBERS)}"
