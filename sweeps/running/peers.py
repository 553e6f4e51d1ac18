"""The further workers of a trial without Ray: processes of this machine that end with the trial."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from sweeps.events import Failed, Lost
from sweeps.running.chosen_start import Start
from sweeps.running.driver import imported, work
from sweeps.running.lost import is_lost_peer
from sweeps.running.stacks import offer_stacks
from sweeps.running.stopping import held as signals_held
from sweeps.task import Assignment, RefusedError
from transformer.processes.alive import signs
from transformer.processes.meeting_port import held_port

COUNT_S = 0.5
PATIENCE_S = 1.0
"""How long rank zero waits for the cause of a worker's end after it lost the connection."""
KILLED_S = 10.0
"""How long to wait for the end of one that was killed: a disk that does not answer holds it up."""


@contextmanager
def peers_of(assignment: Assignment, workers: int) -> Iterator[tuple[str, list["Peer"], "PipedStart | None"]]:
    """Start the workers of rank 1 and higher; yields the address where they wait for rank zero, them, and their start.

    None of them outlives this process. Raises RefusedError, and RuntimeError that names a failed worker.
    """
    if workers == 1:
        yield "", [], None
        return
    held, address = held_port("127.0.0.1")
    peers = [Peer(assignment, rank, workers, address) for rank in range(1, workers)]
    try:
        _start(peers)
        yield address, peers, PipedStart([peer.start_end for peer in peers])
        for peer in peers:
            peer.process.join(timeout=10)
    except RuntimeError as error:
        if cause := _cause(error, peers) if is_lost_peer(error) else None:
            raise cause from error
        raise
    finally:
        for peer in peers:
            peer.end()
        held.close()


class Peer:
    """A worker process that reports when it can meet the others, and why it fails."""

    def __init__(self, assignment: Assignment, rank: int, workers: int, address: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.assignment, self.rank = assignment, rank
        self.failure: RefusedError | Failed | Lost | None = None
        self._receiver, self._sender = context.Pipe(duplex=False)
        self.start_end, self._peers_end = context.Pipe()
        self._signs = context.Value("Q", 0, lock=False)
        arguments = (assignment, rank, workers, address, self._sender, self._signs, self._peers_end)
        self.process = context.Process(target=_follow, args=arguments, daemon=True)

    @property
    def signs(self) -> int:
        """How often it was alive."""
        return int(self._signs.value)

    def start(self) -> None:
        self.process.start()
        self._sender.close()  # only the process holds it now, so reading notices the end of the process
        self._peers_end.close()

    def is_ready(self) -> bool:
        """Wait until it can meet the others; False if it never will."""
        try:
            self.failure = self._receiver.recv()
            return self.failure is None
        except EOFError:
            return False

    def error(self, symptom: RuntimeError) -> Exception | None:
        """Why this worker failed; None if it runs, or failed only because another worker did.

        ``symptom`` is the error of rank zero.
        """
        with suppress(EOFError):
            if self.failure is None and self._receiver.poll(timeout=PATIENCE_S):
                self.failure = self._receiver.recv()
        self.process.join(timeout=PATIENCE_S)
        if isinstance(self.failure, RefusedError):
            return self.failure
        if isinstance(self.failure, Failed):
            return self._named(f"failed: {self.failure.cause}", self.failure.details)
        if self.failure is None and self.process.exitcode is not None:
            return self._named(f"{_ending(self.process.exitcode)}: {symptom}")
        return None

    def end(self) -> None:
        if self.process.pid is not None:
            self.process.kill()
            self.process.join(KILLED_S)

    def _named(self, ending: str, details: str = "") -> RuntimeError:
        error = RuntimeError(f"worker {self.rank} (pid {self.process.pid}) {ending}")
        error.add_note(details)
        return error


def _start(peers: list[Peer]) -> None:
    """Start each worker and wait until it is ready: rank zero would wait forever for a worker that fails earlier."""
    resource_tracker.ensure_running()  # here, because its start lets the signals through
    with signals_held():  # a signal to the process group is for rank zero
        for peer in peers:
            peer.start()
    imported(peers[0].assignment)  # while the processes start

    if not all(peer.is_ready() for peer in peers):
        symptom = RuntimeError("the workers could not meet")
        raise _cause(symptom, peers) or symptom


def _cause(symptom: RuntimeError, peers: list[Peer]) -> Exception | None:
    """Rank zero notices only a lost connection; the worker's own error or exit code explains it."""
    return next(filter(None, (peer.error(symptom) for peer in peers)), None)


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with code {code}"


class PipedStart:
    """A chosen start that goes through pipes: rank zero has one end for each other worker, and these have one each."""

    def __init__(self, ends: list[Connection]) -> None:
        self._ends = ends

    def tell(self, start: Start | None) -> None:
        for end in self._ends:
            with suppress(OSError):  # a peer that has died shows when the workers meet
                end.send(start)

    def told(self) -> Start | None:
        start: Start | None = self._ends[0].recv()
        return start

    def loaded(self, rank: int, world: int) -> None:
        for end in self._ends:
            with suppress(EOFError, OSError):
                end.send(None) if rank else end.recv()


def _follow(
    assignment: Assignment, rank: int, workers: int, address: str, sender: Connection, counted: Any, start: Connection
) -> None:
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    threading.Thread(target=_count, args=(counted,), daemon=True).start()
    offer_stacks()
    try:
        imported(assignment)
        sender.send(None)
        for _ in work(assignment, rank, workers, address, lambda: False, PipedStart([start])):
            pass
    except Exception as error:
        sender.send(_failure(error))
        sys.exit(1)  # without the traceback that multiprocessing would print


def _count(counted: Any) -> None:
    """Show the parent this process's signs of life."""
    while True:
        counted.value = signs()
        time.sleep(COUNT_S)


def _failure(error: Exception) -> RefusedError | Failed | Lost:
    if isinstance(error, RefusedError):
        return error
    kind = Lost if is_lost_peer(error) else Failed
    return kind(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())


def _leave_with_parent() -> None:
    """End this process when its parent ends, even while another call blocks."""
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)
