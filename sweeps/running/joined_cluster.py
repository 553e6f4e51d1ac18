"""A cluster of Ray that this process has joined: why no trial can run on it any more."""

from typing import Any

import psutil

from sweeps.running.head_link import HeadLink


class JoinedCluster:
    """Its head, and its node process on this machine, without which Ray ends this process within seconds."""

    def __init__(self, ray: Any) -> None:
        self._link = HeadLink(ray.get_runtime_context().gcs_address)
        node = ray._private.worker._global_node
        self._raylet = _listening_at(node.raylet_socket_name) if node else None

    def fault(self) -> str | None:
        if self._raylet and not _runs(self._raylet):
            return "Ray's node process (raylet) ended"
        return self._link.fault()


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
