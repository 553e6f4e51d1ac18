"""The end of Ray itself: a thread that notices it, and ends this process with one line.

Ray would try to reach its head for a minute, print its own traces, and then end the process. Nothing can be trained
then, and what was trained is on disk.
"""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from sweeps.discarded import discard
from sweeps.running.joined_cluster import JoinedCluster

LOOK_S = 1.0
CLEANING_S = 10.0
"""How long the records of this end may take; a folder that hangs must not hold it up."""
SYNCER = "tracking.sync"
"""It carries the rest to MLflow, and then ends by itself."""
HEAD = {"gcs_server": "Ray's head process (gcs_server)", "raylet": "Ray's node process (raylet)"}


class ClusterWatch:
    """Watches Ray until ``close``: ``say`` and ``record`` get the cause of its end; then this process exits."""

    def __init__(self, say: Callable[[str], None], record: Callable[[str], None]) -> None:
        self._say, self._record = say, record
        self._closing = threading.Event()
        self._family: set[psutil.Process] = set()

    def start(self) -> None:
        import ray

        self._node: Any = ray._private.worker._global_node
        own = self._node and self._node.all_processes
        self._joined = None if own else JoinedCluster(ray)
        threading.Thread(target=self._watch, name="end of Ray", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_S):
            cause = self._joined.fault() if self._joined else self._dead_process()
            if cause and not self._closing.is_set():
                self._end(cause)

    def _dead_process(self) -> str | None:
        """A process of Ray that this one has started, and that has ended."""
        with suppress(psutil.Error, OSError):  # this process may have too many open files
            self._family |= set(psutil.Process().children(recursive=True))
        dead = {kind for kind, _ in self._node.dead_processes()}
        return next((f"{words} ended" for kind, words in HEAD.items() if kind in dead), None)

    def _end(self, cause: str) -> None:
        """The main thread may be waiting for Ray and cannot end in order, so this thread ends the process."""
        try:
            with suppress(Exception):  # what cannot be printed must not keep the rest from being done
                self._say(cause)
            with suppress(OSError):  # too many open files
                _silence()
            record = threading.Thread(target=self._record, args=(cause,), daemon=True)
            record.start()
            record.join(CLEANING_S)
            for process in self._family:
                with suppress(psutil.Error, OSError):
                    if process.is_running() and SYNCER not in process.cmdline():
                        process.kill()
        finally:
            os._exit(1)


def _silence() -> None:
    """Drop what Ray prints from now on."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    discard(1, 2)
