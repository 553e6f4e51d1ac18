"""One trial in this process, without Ray; its further workers are processes of this machine."""

import multiprocessing
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.running.open_study import open_study
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.stopping import Stopping, held
from transformer.messages import Assignment, Failed, Lost, Stopped
from transformer.schema import RefusedError

PATIENCE_S = 1.0
"""How long the cause of a worker's end may take to be known after rank zero has felt it."""


def run_single(plan: Plan, command: list[str], console: Console) -> None:
    """Train and evaluate the one trial of the plan. Raises RefusedError, Interrupted."""
    with open_study(plan, command, console) as (plan, stopping):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_here(plan, progress, stopping)


def _run_here(plan: Plan, progress: Progress, stopping: Stopping) -> None:
    planned = plan.pending[0]
    recorder, name = Recorder(planned), planned.trial.name
    recorder.begin()
    progress.start(name)
    try:
        _work(recorder, progress, stopping)
    except KeyboardInterrupt as error:
        told = stopping.with_lines(error, progress.left())  # first: a further signal may end the rest
        recorder.end("interrupted")
        raise told from None
    except RefusedError:
        recorder.end("refused")
        raise
    except Exception as error:
        failed = Failed(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())
        recorder.take(recorder.attempt, failed)
        progress.take(name, failed)


def _work(recorder: Recorder, progress: Progress, stopping: Stopping) -> None:
    """Be rank zero. Raises Interrupted once the trial has stopped as requested."""
    assignment, name = recorder.assignment(), recorder.planned.trial.name
    workers = recorder.planned.settings.cluster.workers

    def stop() -> bool:
        if stopping.requested() and not progress.stopping:
            progress.stop()
        return stopping.requested()

    with _peers(assignment, workers) as address, stopping.gentle():
        from transformer.worker import work

        for event in work(assignment, 0, workers, address, stop):
            recorder.take(assignment.attempt, event)
            progress.take(name, event)
            if isinstance(event, Stopped):
                raise stopping.interrupted(progress.left())


@contextmanager
def _peers(assignment: Assignment, workers: int) -> Iterator[str]:
    """The other workers, and the address where they wait for rank zero; none of them outlives this process."""
    if workers == 1:
        yield ""
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    peers = [Peer(assignment, rank, workers, address) for rank in range(1, workers)]
    try:
        _start(peers)
        yield address
        for peer in peers:
            peer.process.join(timeout=10)
    except RuntimeError as error:
        from transformer.training.parallel import is_lost_peer

        if cause := _cause(error, peers) if is_lost_peer(error) else None:
            raise cause from error
        raise
    finally:
        for peer in peers:
            peer.end()


class Peer:
    """A further worker: a process that says when it can meet the others, and why it fails."""

    def __init__(self, assignment: Assignment, rank: int, workers: int, address: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.rank = rank
        self.failure: RefusedError | Failed | Lost | None = None
        self._heard, self._told = context.Pipe(duplex=False)
        told = (assignment, rank, workers, address, self._told)
        self.process = context.Process(target=_follow, args=told, daemon=True)

    def start(self) -> None:
        self.process.start()
        self._told.close()  # only the process has it now, so its end can be heard

    def is_ready(self) -> bool:
        """Wait until it can meet the others; False if it never will."""
        try:
            self.failure = self._heard.recv()
            return self.failure is None
        except EOFError:
            return False

    def error(self, felt: RuntimeError) -> Exception | None:
        """Why it failed, if it did and not for another worker; ``felt`` is what rank zero noticed of it."""
        with suppress(EOFError):
            if self.failure is None and self._heard.poll(timeout=PATIENCE_S):
                self.failure = self._heard.recv()
        self.process.join(timeout=PATIENCE_S)
        if isinstance(self.failure, RefusedError):
            return self.failure
        if isinstance(self.failure, Failed):
            return self._named(f"failed: {self.failure.cause}", self.failure.details)
        if self.failure is None and self.process.exitcode:
            return self._named(f"{_ending(self.process.exitcode)}: {felt}")
        return None

    def end(self) -> None:
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()

    def _named(self, ending: str, details: str = "") -> RuntimeError:
        error = RuntimeError(f"worker {self.rank} (pid {self.process.pid}) {ending}")
        error.add_note(details)
        return error


def _start(peers: list[Peer]) -> None:
    """Rank zero waits for ever for a worker that fails before they meet: so first each must be ready."""
    resource_tracker.ensure_running()  # here, since its start lets the signals through
    with held():  # a signal to the process group is for rank zero
        for peer in peers:
            peer.start()
    import transformer.worker  # noqa: F401 — meanwhile

    if not all(peer.is_ready() for peer in peers):
        felt = RuntimeError("the workers could not meet")
        raise _cause(felt, peers) or felt


def _cause(felt: RuntimeError, peers: list[Peer]) -> Exception | None:
    """Rank zero only feels that a peer is gone; the peer says more, or its exit code."""
    return next(filter(None, (peer.error(felt) for peer in peers)), None)


def _ending(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"left with exit code {code}"


def _follow(assignment: Assignment, rank: int, workers: int, address: str, told: Connection) -> None:
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        from transformer.worker import work

        told.send(None)
        for _ in work(assignment, rank, workers, address):
            pass
    except Exception as error:
        told.send(_failure(error))
        sys.exit(1)  # without the traceback that multiprocessing would print


def _failure(error: Exception) -> RefusedError | Failed | Lost:
    if isinstance(error, RefusedError):
        return error
    from transformer.training.parallel import is_lost_peer

    kind = Lost if is_lost_peer(error) else Failed
    return kind(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())


def _leave_with_parent() -> None:
    """However the parent ends, and wherever this process waits at that moment."""
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)
