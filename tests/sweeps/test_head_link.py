"""When the head of a cluster counts as gone, by real sockets of this machine."""

import resource
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from studies import wait_until

from sweeps.running.head_link import REFUSED_S, SILENT_S, HeadLink

LONG = 600.0


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        yield server


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_head_that_answers_is_not_gone(listening: socket.socket) -> None:
    assert HeadLink(address(listening), 0, 0).fault() is None


def test_a_head_that_refuses_is_gone_after_a_while(listening: socket.socket) -> None:
    link, patient = (HeadLink(address(listening), seconds, LONG) for seconds in (0.2, LONG))
    listening.close()
    assert link.fault() is None
    wait_until(lambda: link.fault() is not None, "the end of the head", 60)
    assert patient.fault() is None


def test_a_head_that_is_silent_has_more_time_and_less_than_ray_has(listening: socket.socket) -> None:
    """Its backlog is full, as that of a head that is busy; a link that is down looks the same."""
    assert REFUSED_S < SILENT_S < 60
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(listening.getsockname())
    link = HeadLink(address(listening), 0, 0.2)
    assert link.fault() is None, "it may answer yet"
    wait_until(lambda: link.fault() is not None, "the end of the head", 60)
    for each in waiting:
        each.close()


ASK_WITHOUT_FILES = """
import resource, sys
from sweeps.running.head_link import HeadLink
link = HeadLink(sys.argv[1], 0, 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print([link.fault() for _ in range(3)])
"""


def test_a_process_with_too_many_open_files_does_not_blame_the_head(listening: socket.socket) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 3
    command = [sys.executable, "-c", ASK_WITHOUT_FILES, address(listening)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "[None, None, None]", done.stderr
