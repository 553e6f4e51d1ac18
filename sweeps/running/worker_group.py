"""One trial on Ray: a worker group, one worker per bundle of the trial's placement group, joined by torch.distributed.

Imports no torch: only the workers need it.
"""

import asyncio
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayError
from ray.util import get_current_placement_group, get_node_ip_address
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from sweeps.planning.settings import Cluster
from sweeps.running.deaths import describe
from transformer.messages import Assignment, Event, Failed, Lost, Stopped
from transformer.schema import RefusedError

EVENTS_AHEAD = 4
"""How far a worker may run ahead of a sweep that takes no events: then it waits, and so do its peers."""
PATIENCE_S = 5.0
"""How long the death of a peer may take to be known after a worker has felt it; and an answer of the bell."""
LISTEN_S = 10.0
"""How long one question to the bell stays open."""


class LostWorkerError(RuntimeError):
    """A worker is gone: Tune starts the trial again."""


def bundles(cluster: Cluster) -> tune.PlacementGroupFactory:
    """What a whole worker group needs at once; the empty head stands for the trial function, which only waits."""
    worker = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    return tune.PlacementGroupFactory(
        [{}] + [{k: v for k, v in worker.items() if v}] * cluster.workers, strategy="PACK"
    )


@ray.remote(num_cpus=0)
class Bell:
    """Tells the workers on all nodes that the sweep is asked to stop."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def ring(self) -> None:
        self.rung.set()

    async def is_rung(self, within: float = 0.0) -> bool:
        """Answers as soon as it is rung, after ``within`` seconds at the latest: Ray runs 1000 calls at a time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.rung.wait(), within)
        return self.rung.is_set()


def start_bell() -> Any:
    """On this process's node, so that no other node's death can take it away."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return Bell.options(scheduling_strategy=here).remote()  # type: ignore[attr-defined]


def _is_rung(bell: Any, within: float = 0.0) -> bool:
    """A bell that does not answer was not rung: training goes on without it."""
    try:
        return bool(ray.get(bell.is_rung.remote(within), timeout=within + PATIENCE_S))
    except RayError:
        return False


@ray.remote(max_restarts=0)
class Worker:
    """One process of a worker group, over all trials that it is given."""

    def __init__(self) -> None:
        self.rung: Callable[[], bool] | None = None  # the one listener of this process

    def address(self) -> str:
        """host:port on this worker's node at which the group can meet."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{get_node_ip_address()}:{probe.getsockname()[1]}"

    def run(self, assignment: Assignment, rank: int, world: int, address: str, bell: Any) -> Iterator[Event]:
        from transformer.training.parallel import is_lost_peer
        from transformer.worker import work

        self.rung = self.rung or _listener(bell)
        try:
            yield from work(assignment, rank, world, address, self.rung)
        except RefusedError as error:
            yield Failed(str(error.problems[0]), str(error))
        except Exception as error:
            told = Lost if is_lost_peer(error) else Failed
            yield told(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())


def _listener(bell: Any) -> Callable[[], bool]:
    """Whether the bell was rung. A thread waits for it: this one is busy training."""
    rung = threading.Event()

    def wait() -> None:
        asked = time.monotonic()
        while not _is_rung(bell, LISTEN_S):
            time.sleep(max(0.0, asked + LISTEN_S - time.monotonic()))  # one that is gone answers at once
            asked = time.monotonic()
        rung.set()

    threading.Thread(target=wait, daemon=True).start()
    return rung.is_set


_idle_workers: list[Any] = []
"""The worker group of the last trial, if that went well. Tune gives this process one trial after another, in the same
placement group, and a fresh worker takes seconds to import torch."""


def run_trial(config: dict[str, Any], assignments: dict[str, Assignment], cluster: Cluster, bell: Any) -> None:
    """The Tune trial function: start the worker group, pass on what it reports.

    A worker that dies raises LostWorkerError here, and Tune starts the trial again as the next attempt; a failure
    that another try would meet again is reported and not raised.
    """
    if _is_rung(bell):
        return
    assignment = config["again"] or assignments[config["trial"]]
    workers, finished = _idle_workers.copy() or _start_workers(cluster), False
    _idle_workers.clear()
    try:
        finished = _run(workers, assignment, bell)
    finally:
        if finished:
            _idle_workers.extend(workers)
        else:  # nobody knows in what state they are
            for worker in workers:
                ray.kill(worker)


def _run(workers: list[Any], assignment: Assignment, bell: Any) -> bool:
    """Pass on what the workers report; whether they came to a good end."""
    event: Event | None = None
    for event in _events(workers, assignment, bell):
        tune.report({"attempt": assignment.attempt, "event": event})
        if isinstance(event, Lost):
            raise LostWorkerError(event.cause)
        if isinstance(event, Failed | Stopped):
            return False
    return True


def _events(workers: list[Any], assignment: Assignment, bell: Any) -> Iterator[Event]:
    """What any worker yields, as it comes: waiting on all at once, so that a death is seen at once."""
    streams: dict[Any, int] = {}
    try:
        address = ray.get(workers[0].address.remote())
        for rank, worker in enumerate(workers):
            run = worker.run.options(num_returns="streaming", _generator_backpressure_num_objects=EVENTS_AHEAD)
            streams[run.remote(assignment, rank, len(workers), address, bell)] = rank
        yield from _as_they_come(streams)
    except RayError as error:
        yield describe(error, "a worker")


def _as_they_come(streams: dict[Any, int]) -> Iterator[Event]:
    while streams:
        ready, _ = ray.wait(list(streams), num_returns=1)
        for stream in ready:
            rank = streams.pop(stream)
            try:
                event: Event = ray.get(next(stream))
            except StopIteration:
                continue
            except RayError as error:
                yield describe(error, f"worker {rank}")
                return
            if isinstance(event, Lost):  # felt by a peer: Ray may know who died, and how
                yield _death(streams) or event
                return
            streams[stream] = rank
            yield event


def _death(streams: dict[Any, int]) -> Lost | None:
    """Which worker died, if that comes to be known."""
    ready, _ = ray.wait(list(streams), num_returns=len(streams), timeout=PATIENCE_S) if streams else ([], [])
    for stream in ready:
        try:
            ray.get(next(stream))
        except StopIteration:
            continue
        except RayError as error:
            return describe(error, f"worker {streams[stream]}")
    return None


def _start_workers(cluster: Cluster) -> list[Any]:
    group = get_current_placement_group()
    return [
        Worker.options(  # type: ignore[attr-defined]
            num_cpus=cluster.cpus_per_worker,
            num_gpus=cluster.gpus_per_worker,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        ).remote()
        for index in range(cluster.workers)
    ]
