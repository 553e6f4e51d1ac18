"""One trial in this process, without Ray; its further workers are processes of this machine."""

import os
import signal
import socket
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.running.open_study import open_study
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.stopping import Stopping
from transformer.messages import Assignment, Failed, Stopped
from transformer.schema import RefusedError


def run_single(plan: Plan, command: list[str], console: Console) -> None:
    """Train and evaluate the one trial of the plan. Raises RefusedError, Interrupted."""
    with open_study(plan, command, console) as stopping:
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
        recorder.end("interrupted")
        raise stopping.told(error, progress.left()) from None
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
    import torch.multiprocessing

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    context = torch.multiprocessing.get_context("spawn")
    peers = [
        context.Process(target=_follow, args=(assignment, rank, workers, address), daemon=True)
        for rank in range(1, workers)
    ]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the peers inherit that: Ctrl-C is for rank zero
    for peer in peers:
        peer.start()
    signal.signal(signal.SIGINT, before)
    try:
        yield address
        for peer in peers:
            peer.join(timeout=10)
    except RuntimeError as error:
        raise _cause(error, peers) from error
    finally:
        for peer in peers:
            peer.kill()
            peer.join()


def _cause(error: RuntimeError, peers: list[Any]) -> RuntimeError:
    """Rank zero only feels that a peer is gone; its exit code says more."""
    for rank, peer in enumerate(peers, start=1):
        peer.join(timeout=1)
        if peer.exitcode:
            ending = f"was killed by {signal.Signals(-peer.exitcode).name}" if peer.exitcode < 0 else "failed"
            return RuntimeError(f"worker {rank} (pid {peer.pid}) {ending}: {error}")
    return error


def _follow(assignment: Assignment, rank: int, workers: int, address: str) -> None:
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    from transformer.worker import work

    for _ in work(assignment, rank, workers, address):
        pass


def _leave_with_parent() -> None:
    """However the parent ends, and wherever this process waits at that moment."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)
