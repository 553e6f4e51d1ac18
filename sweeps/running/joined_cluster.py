"""A cluster of Ray that this process has joined: why no trial can run on it any more."""

import errno
import socket
import time
from typing import Any

import psutil

SILENT_S = 45.0
"""How long the head may not answer: it may be busy or started again. Ray itself gives up after 60 s, with traces."""
ANSWER_S = 2.0
OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)


class JoinedCluster:
    """Its head, and its node process on this machine, without which Ray ends this process within seconds."""

    def __init__(self, ray: Any) -> None:
        self._address: str = ray.get_runtime_context().gcs_address
        self._looked = self._answered = time.monotonic()
        node = ray._private.worker._global_node
        self._raylet = _listening_at(node.raylet_socket_name) if node else None

    def fault(self) -> str | None:
        if self._raylet and not _runs(self._raylet):
            return "Ray's node process (raylet) ended"
        before, answers = self._looked, _answers(self._address)
        self._looked = now = time.monotonic()
        if answers or now - before > SILENT_S / 2:  # this process itself was stopped meanwhile
            self._answered = now
        gone = now - self._answered > SILENT_S
        return f"Ray's head at {self._address} no longer answers" if gone else None


def _answers(address: str) -> bool:
    """Whether the head answers, as far as this process can ask."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        return error.errno in OWN_FAULTS
    return True


def _listening_at(socket_name: str) -> psutil.Process | None:
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet" and any(socket_name in word for word in process.info["cmdline"] or ()):
            return process
    return None


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except OSError:  # this process may have too many open files
        return True
