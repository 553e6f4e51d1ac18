"""The end of Ray itself: a thread that notices it, and ends this process with one line.

Ray would try to reach its head for a minute, print its own traces, and then end the process. Nothing can be trained
then, and what was trained is on disk.
"""

import errno
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil
import ray
from ray.util import get_node_ip_address

from sweeps.discarded import discard
from sweeps.processes.times import CLEANING_S, HEAD_ANSWER_S, HEAD_SILENT_S, LOOK_AT_RAY_S

SYNCER = "tracking.mlflow.sync"
"""It carries the rest to MLflow, and then ends by itself."""
NODE, HEAD = "raylet", "gcs_server"
WORDS = {HEAD: "Ray's head process (gcs_server) ended", NODE: "Ray's node process (raylet) ended"}
OWN_FAULTS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL)


class RayWatch:
    """Watches Ray until ``close``: ``say`` and ``record`` get the cause of its end; then this process exits.

    If this process has started Ray, it ends with Ray's processes here. If it has
    joined a cluster, it ends with its node here, or once the head has been silent for a while.
    """

    def __init__(self, say: Callable[[str], None], record: Callable[[str], None]) -> None:
        self._address, self._say, self._record = ray.get_runtime_context().gcs_address, say, record
        self._closing = threading.Event()
        own = _named(psutil.Process().children())
        self._needed = own or _named(each for each in psutil.process_iter() if _is_our_node(each, self._address))
        self._joined = not own
        self._family: set[psutil.Process] = set()
        self._looked = self._answered = time.monotonic()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="end of Ray", daemon=True).start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_AT_RAY_S):
            with suppress(psutil.Error, OSError):  # this process may have too many open files
                self._family |= set(psutil.Process().children(recursive=True))
            cause = self._fault()
            if cause and not self._closing.is_set():
                self._end(cause)

    def _fault(self) -> str | None:
        """Why no trial can run any more."""
        for name, process in self._needed.items():
            if not _runs(process):
                return WORDS[name]
        silent = self._joined and self._silent()
        return f"Ray's head at {self._address} no longer answers" if silent else None

    def _silent(self) -> bool:
        before, answers = self._looked, _answers(self._address)
        self._looked = now = time.monotonic()
        if answers or now - before > HEAD_SILENT_S / 2:  # this process itself was stopped meanwhile
            self._answered = now
        return now - self._answered > HEAD_SILENT_S

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


def _named(processes: Iterable[psutil.Process]) -> dict[str, psutil.Process]:
    """Those of Ray's own that nothing runs without, by name."""
    return {each.name(): each for each in processes if each.name() in WORDS}


def _is_our_node(process: psutil.Process, head: str) -> bool:
    """Whether it is this machine's node of that cluster."""
    needed = {f"--gcs-address={head}", f"--node_ip_address={get_node_ip_address()}"}
    try:
        return process.name() == NODE and needed <= set(process.cmdline())
    except (psutil.Error, OSError):
        return False


def _answers(address: str) -> bool:
    """Whether the head answers, as far as this process can ask."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=HEAD_ANSWER_S).close()
    except OSError as error:
        return error.errno in OWN_FAULTS
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except OSError:  # this process may have too many open files
        return True


def _silence() -> None:
    """Drop what Ray prints from now on."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError):
            stream.flush()
    discard(1, 2)
