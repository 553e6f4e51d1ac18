"""The end of Ray itself: a thread that notices it, and ends this process with one line.

Ray would try to reach its head for a minute, print its own traces, and then end the process. Nothing can be trained
then, and what was trained is on disk.
"""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

LOOK_S = 1.0
SILENT_S = 15.0
"""How long the head of a cluster may refuse connections: it may be restarted."""
CLEANING_S = 10.0
"""How long the records of this end may take; a folder that hangs must not hold it up."""
SYNCER = "tracking.sync"
"""It carries the rest to MLflow, and then ends by itself."""
HEAD = {"gcs_server": "Ray's head process (gcs_server)", "raylet": "Ray's node process (raylet)"}


class ClusterWatch:
    """Watches Ray from ``start`` to ``close``: ``say`` tells its end, ``record`` records it; then the process exits."""

    def __init__(self, say: Callable[[str], None], record: Callable[[], None]) -> None:
        self._say, self._record = say, record
        self._closing = threading.Event()
        self._family: set[psutil.Process] = set()
        self._joined: psutil.Process | None = None  # Ray's node process here, if somebody else has started it
        self._silent_since: float | None = None

    def start(self) -> None:
        import ray

        self._node: Any = ray._private.worker._global_node
        self._joined = _node_process(self._node.raylet_socket_name) if self._node else None
        self._head = ray.get_runtime_context().gcs_address
        threading.Thread(target=self._watch, name="end of Ray", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            if (cause := self._dead_process() or self._silent_head()) and not self._closing.is_set():
                self._end(cause)

    def _dead_process(self) -> str | None:
        """A process of Ray that has ended: one that this process has started, or the node process that it joined."""
        with suppress(psutil.Error):
            self._family |= set(psutil.Process().children(recursive=True))
        dead = {kind for kind, _ in self._node.dead_processes()} if self._node else set()
        dead |= {"raylet"} if self._joined and _has_ended(self._joined) else set()
        return next((f"{words} ended" for kind, words in HEAD.items() if kind in dead), None)

    def _silent_head(self) -> str | None:
        """The head of a cluster that this process has joined."""
        host, _, port = self._head.rpartition(":")
        now = time.monotonic()
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK_S).close()
            self._silent_since = None
        except OSError:
            self._silent_since = self._silent_since or now
        silent = self._silent_since is not None and now - self._silent_since > SILENT_S
        return f"Ray's head at {self._head} no longer answers" if silent else None

    def _end(self, cause: str) -> None:
        """The main thread may be waiting for Ray and cannot end in order, so this thread ends the process."""
        self._say(cause)
        _silence()
        record = threading.Thread(target=self._record, daemon=True)
        record.start()
        record.join(CLEANING_S)
        for process in self._family:
            with suppress(psutil.Error):
                if process.is_running() and SYNCER not in process.cmdline():
                    process.kill()
        os._exit(1)


def _node_process(socket_name: str) -> psutil.Process | None:
    """The process on this machine that listens at this socket."""
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "raylet" and any(socket_name in word for word in process.info["cmdline"] or ()):
            return process
    return None


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _silence() -> None:
    """Drop what Ray prints from now on."""
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(nowhere, descriptor)
