"""One trial in this process, without Ray; a gang of several runs on this machine by torch.multiprocessing."""

import socket
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from sweeps.plan import Plan
from sweeps.progress import Progress
from sweeps.record import Recorder
from sweeps.run import taking
from transformer.messages import Assignment, Failed
from transformer.schema import RefusedError


def run_single(plan: Plan, command: list[str], console: Console) -> None:
    """Train and judge the one trial of the plan. Raises RefusedError, KeyboardInterrupt."""
    with taking(plan, command, console):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_here(plan, progress)


def _run_here(plan: Plan, progress: Progress) -> None:
    planned = plan.pending[0]
    recorder, name = Recorder(planned), planned.trial.name
    assignment = recorder.assignment()
    recorder.begin()
    progress.start(name)
    try:
        with _peers(assignment, planned.settings.cluster.workers) as address:
            from transformer.trial import work

            for event in work(assignment, 0, planned.settings.cluster.workers, address):
                recorder.take(assignment.attempt, event)
                progress.take(name, event)
    except KeyboardInterrupt:
        recorder.end("interrupted")
        raise
    except RefusedError:
        recorder.end("refused")
        raise
    except Exception as error:
        failed = Failed(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())
        recorder.take(assignment.attempt, failed)
        progress.take(name, failed)


@contextmanager
def _peers(assignment: Assignment, workers: int) -> Iterator[str]:
    """The other workers of the gang, and the address where they wait for the first."""
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
    for peer in peers:
        peer.start()
    try:
        yield address
    finally:
        for peer in peers:
            peer.join(timeout=10)
            peer.kill()


def _follow(assignment: Assignment, rank: int, workers: int, address: str) -> None:
    from transformer.trial import work

    for _ in work(assignment, rank, workers, address):
        pass
