"""One trial on Ray: a worker group, one worker per bundle of the trial's placement group, joined by torch.distributed.

Imports no torch: only the workers need it.
"""

from collections.abc import Iterator
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayError
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.events import Event, Failed, Lost, Stopped
from sweeps.planning.settings import Cluster
from sweeps.running.bell import is_rung
from sweeps.running.deaths import describe
from sweeps.running.resources import strategy
from sweeps.running.worker_actor import WorkerActor
from sweeps.task import Assignment

EVENTS_AHEAD = 4
"""How many events a worker may send before the sweep takes one; then the worker and its peers wait."""
PATIENCE_S = 5.0
"""How long to wait for the cause of a peer's death."""


class LostWorkerError(RuntimeError):
    """A worker is lost: Tune retries the trial."""


def bundles(cluster: Cluster) -> tune.PlacementGroupFactory:
    """The resources of a whole worker group; the empty first bundle is for the trial function, which only waits."""
    worker = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    return tune.PlacementGroupFactory(
        [{}] + [{k: v for k, v in worker.items() if v}] * cluster.workers, strategy=strategy(cluster)
    )


_idle_workers: list[Any] = []
"""The worker group of the last trial, if that trial finished. Tune gives this process one trial after another, in the
same placement group. A new worker would take seconds to import torch."""


def run_trial(config: dict[str, Any], assignments: dict[str, Assignment], cluster: Cluster, bell: Any) -> None:
    """The Tune trial function: start the worker group and pass on its events.

    Raises LostWorkerError if a worker dies; then Tune retries the trial as the next attempt. A failure that a retry
    would repeat is reported, not raised.
    """
    assignment = config["again"] or assignments[config["trial"]]
    if is_rung(bell, assignment.key):
        return
    workers, finished = _idle_workers.copy() or _start_workers(cluster), False
    _idle_workers.clear()
    try:
        finished = _run(workers, assignment, bell)
    finally:
        if finished:
            _idle_workers.extend(workers)
        else:  # their state is unknown
            for worker in workers:
                ray.kill(worker)


def _run(workers: list[Any], assignment: Assignment, bell: Any) -> bool:
    """Pass on the events of the workers; returns whether the trial finished."""
    event: Event | None = None
    for event in _events(workers, assignment, bell):
        tune.report({"attempt": assignment.attempt, "event": event})
        if isinstance(event, Lost):
            raise LostWorkerError(event.cause)
        if isinstance(event, Failed | Stopped):
            return False
    return True


def _events(workers: list[Any], assignment: Assignment, bell: Any) -> Iterator[Event]:
    """The events of all workers as they come. Waits for all workers together, so that a death shows at once."""
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
            if isinstance(event, Lost):  # noticed by a peer: Ray may know which worker died, and why
                yield _death(streams) or event
                return
            streams[stream] = rank
            yield event


def _death(streams: dict[Any, int]) -> Lost | None:
    """The worker that died, if Ray reports it in time."""
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
        WorkerActor.options(  # type: ignore[attr-defined]
            num_cpus=cluster.cpus_per_worker,
            num_gpus=cluster.gpus_per_worker,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index),
        ).remote()
        for index in range(cluster.workers)
    ]
