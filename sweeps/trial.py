"""One trial on Ray: a gang of workers, one a bundle of the trial's placement group, joined by torch.distributed.

Imports no torch: only the workers need it.
"""

import socket
import traceback
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ray
from ray import tune
from ray.util import get_current_placement_group, get_node_ip_address
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.settings import Cluster
from transformer.messages import Assignment, Event, Failed
from transformer.schema import RefusedError


def bundles(cluster: Cluster) -> tune.PlacementGroupFactory:
    """What a whole gang needs at once; the empty head stands for the trial function itself, which only waits."""
    worker = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    return tune.PlacementGroupFactory(
        [{}] + [{k: v for k, v in worker.items() if v}] * cluster.workers, strategy="PACK"
    )


@ray.remote(max_restarts=0)
class Worker:
    """One process of a gang."""

    def address(self) -> str:
        """host:port on this worker's node at which the gang can meet."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"{get_node_ip_address()}:{probe.getsockname()[1]}"

    def run(self, assignment: Assignment, rank: int, world: int, address: str) -> Iterator[Event]:
        from transformer.trial import work

        try:
            yield from work(assignment, rank, world, address)
        except RefusedError as error:
            yield Failed(str(error.problems[0]), str(error))
        except Exception as error:
            yield Failed(f"{type(error).__name__}: {error}".splitlines()[0], traceback.format_exc())


_idle_workers: list[Any] = []
"""The gang of the last trial, if that went well. Tune gives this process one trial after another, in the same placement
group, and a fresh worker takes seconds to import torch."""


def run_trial(config: dict[str, Any], assignments: dict[str, Assignment], cluster: Cluster) -> None:
    """The Tune trial function: start the gang, pass on what it reports.

    A worker that dies raises RayError here, and Tune starts the trial again as the next attempt; a failure that
    another try would meet again is reported and not raised.
    """
    first = assignments[config["trial"]]
    judged = config["judged"] if config["retries"] else first.judged
    assignment = replace(first, attempt=first.attempt + config["retries"], judged=judged)
    workers, finished = _idle_workers.copy() or _start_workers(cluster), False
    _idle_workers.clear()
    try:
        finished = _run(workers, assignment)
    finally:
        if finished:
            _idle_workers.extend(workers)
        else:  # nobody knows in what state they are
            for worker in workers:
                ray.kill(worker)


def _run(workers: list[Any], assignment: Assignment) -> bool:
    """Pass on what the workers report; whether they came to a good end."""
    address = ray.get(workers[0].address.remote())
    streams = [
        worker.run.options(num_returns="streaming").remote(assignment, rank, len(workers), address)
        for rank, worker in enumerate(workers)
    ]
    for event in _events(streams):
        tune.report({"attempt": assignment.attempt, "event": event})
        if isinstance(event, Failed):
            return False
    return True


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


def _events(streams: list[Any]) -> Iterator[Event]:
    """What any worker yields, as it comes: waiting on all at once, so that a death is seen at once."""
    while streams:
        ready, _ = ray.wait(streams, num_returns=1)
        for stream in ready:
            try:
                yield ray.get(next(stream))
            except StopIteration:
                streams.remove(stream)
