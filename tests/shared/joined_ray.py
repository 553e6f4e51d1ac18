"""A Ray cluster of one node, which sweeps join instead of starting their own."""

import atexit
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sweeps.preflight.machine import cpus

KEEPER = """
import os
import shutil
import sys
from contextlib import suppress
from subprocess import DEVNULL
from threading import Event, Thread
import psutil

def wait(wait_for_end):
    wait_for_end()
    over.set()

folder, *command = sys.argv[1:]
head = psutil.Popen(command, stdin=DEVNULL)
over = Event()
for wait_for_end in (sys.stdin.read, head.wait):
    Thread(target=wait, args=(wait_for_end,), daemon=True).start()
over.wait()
family = [head]
for process in psutil.process_iter():
    with suppress(OSError):
        if os.getsid(process.pid) == os.getsid(0) and process.pid != os.getpid():
            family.append(process)
for process in family:
    with suppress(psutil.NoSuchProcess):
        process.kill()
psutil.wait_procs(family)
shutil.rmtree(folder)
sys.stdout.flush()
os._exit(0)
"""
"""Ends Ray once its own input ends: with the tests, however these end. It ends, too, if Ray does
not start."""
ACTIVATED = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
"""As in a shell in which this Python's environment is active."""
STARTS = 3
JOIN = re.compile(r"--address='([^']+)'")
"""What `ray start` says to type on a further node."""


@dataclass(frozen=True)
class JoinedRay:
    """The word that makes a sweep join it, and the environment in which the sweep may."""

    word: str
    environment: dict[str, str]

    @property
    def one_by_one(self) -> tuple[str, str]:
        """The word, and one that makes the sweep run one trial after the other: each further
        process imports for seconds."""
        return self.word, f"cluster.cpus_per_worker={cpus()}"


@cache
def shared_ray() -> JoinedRay:
    """The one of this process, started by the first call. It ends with the tests."""
    ray = running_ray()
    atexit.register(ray.__exit__, None, None, None)
    return ray.__enter__()


@contextmanager
def running_ray() -> Iterator[JoinedRay]:
    """Start Ray with the CPUs of this machine, as a sweep does; at the end, nothing is left."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16)}
    keeper, address = _started(token)
    try:
        yield JoinedRay(f"cluster.address={address}", token)
    finally:
        keeper.communicate()


def _started(token: dict[str, str]) -> tuple["subprocess.Popen[str]", str]:
    """Ray's keeper and its address. A busy machine may be too slow for the 30 s that Ray gives its
    node."""
    printed = ""
    for _ in range(STARTS):
        keeper = _keeper(token)
        assert keeper.stdout
        for line in keeper.stdout:
            printed += line
            if join := JOIN.search(line):
                return keeper, join[1]
        keeper.communicate()
    raise AssertionError(f"Ray did not start: {printed}")


def _keeper(token: dict[str, str]) -> "subprocess.Popen[str]":
    # else Ray kills workers when other processes fill the memory, and gives up on a busy machine
    patient = {"RAY_memory_monitor_refresh_ms": "0", "RAY_gcs_server_port_wait_time_s": "60"}
    folder = tempfile.mkdtemp()  # a socket's path must be short
    command = [
        *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
        f"--port={_free_port()}",
        f"--num-cpus={cpus()}",
        f"--temp-dir={folder}",
        "--include-dashboard=false",
        "--disable-usage-stats",
        "--no-monitor",
    ]
    return subprocess.Popen(
        [sys.executable, "-c", KEEPER, folder, *command],
        env={**os.environ, **ACTIVATED, **token, **patient},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _free_port() -> int:
    with socket.create_server(("", 0)) as server:
        port: int = server.getsockname()[1]
    return port
