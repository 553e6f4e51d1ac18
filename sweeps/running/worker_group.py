"""One trial on Ray: a worker group, one worker per bundle of the trial's placement group, joined by torch.distributed.

Imports no torch: only the workers need it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayError
from ray.util import get_current_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from sweeps.events import Event, Failed, Finished, Lost, Noticed, Stopped
from sweeps.planning.settings import Cluster
from sweeps.preflight.node_facts import Packages
from sweeps.preflight.other_packages import other_packages
from sweeps.running.assignment import Assignment
from sweeps.running.bell import Listener, is_rung
from sweeps.running.deaths import describe
from sweeps.running.group_events import GroupEvents
from sweeps.running.resources import strategy
from sweeps.running.silence import STARTING_S
from sweeps.running.worker_actor import Place, WorkerActor

IDLE_ANSWER_S = 10.0
"""How long workers that wait for a trial may take to answer. One that does not is replaced, with its group."""


class LostWorkerError(RuntimeError):
    """A worker is lost: Tune retries the trial."""

    def __init__(self, lost: Lost) -> None:
        super().__init__(lost.cause)
        self.lost = lost

    def __reduce__(self) -> Any:
        return LostWorkerError, (self.lost,)


def bundles(cluster: Cluster) -> tune.PlacementGroupFactory:
    """The resources of a whole worker group; the empty first bundle is for the trial function, which only waits."""
    worker = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    return tune.PlacementGroupFactory(
        [{}] + [{k: v for k, v in worker.items() if v}] * cluster.workers, strategy=strategy(cluster)
    )


_idle_workers: list[Any] = []
"""The worker group of the last trial, if that trial finished. Tune gives this process one trial after another, in the
same placement group. A new worker would take seconds to import torch."""


def run_trial(
    config: dict[str, Any],
    assignments: dict[str, Assignment],
    cluster: Cluster,
    bell: Any,
    stall_s: float,
    packages: Packages | None,
) -> None:
    """The Tune trial function: start the worker group and pass on its events.

    Raises LostWorkerError if a worker dies or all of them hang for ``stall_s``; then Tune retries the trial as the next
    attempt. A failure that a retry would repeat is reported, not raised. ``packages`` tests whether nodes have the
    sweep's: one may have joined after the sweep began.
    """
    assignment = config["again"] or assignments[config["trial"]]
    if is_rung(bell, assignment.key):
        return

    def tell(events: Sequence[Event]) -> None:
        tune.report({"attempt": assignment.attempt, "events": events})

    workers, finished = [*_idle_workers], False
    _idle_workers.clear()
    try:
        workers, places = _ready(workers, cluster, packages is not None, stall_s)
        if packages:
            _refuse_others(places, packages)
        finished = _run(GroupEvents(workers, places, stall_s, _listener(bell, assignment.key)).of(assignment), tell)
    except LostWorkerError as error:
        if not (error.lost.memory and config["short"]):  # the attempt before this one ran out of memory, too
            tell([error.lost])
            raise
        tell([Failed(f"{error.lost.cause}, for the second time", error.lost.details)])
    finally:
        if finished:
            _idle_workers.extend(workers)
        else:  # their state is unknown
            _kill(workers)


def _run(lists: Iterator[Sequence[Event]], tell: Callable[[Sequence[Event]], None]) -> bool:
    """Pass on the events of the workers; returns whether the trial finished. Raises LostWorkerError."""
    finished = False
    for events in lists:
        end = next((event for event in events if isinstance(event, Failed | Lost)), None)
        if end is not None and finished:  # the result stands, but these workers are not used again
            tell([Noticed(f"a worker did not exit cleanly after the result: {end.cause}")])
            return False
        if isinstance(end, Lost):
            tell([event for event in events if event is not end])
            raise LostWorkerError(end)
        tell(events)
        if end is not None or any(isinstance(event, Stopped) for event in events):
            return False
        finished = finished or any(isinstance(event, Finished) for event in events)  # what workers print may follow it
    if finished:
        return True
    raise LostWorkerError(Lost("worker 0 ended without a result", ""))


@cache
def _listening(bell: Any) -> Listener:
    """The one listener of this process."""
    return Listener(bell)


def _listener(bell: Any, key: str) -> Listener:
    listener = _listening(bell)
    listener.key = key
    return listener


def _refuse_others(places: list[Place], packages: Packages) -> None:
    """Raises LostWorkerError if a node has others than these: the trial would train with other code."""
    for place in places:
        for problem in other_packages(place.packages or {}, packages):
            raise LostWorkerError(Lost(f"{place.host}: {problem.found}; {problem.allowed}", "", unfit=True))


def _ready(idle: list[Any], cluster: Cluster, compared: bool, stall_s: float) -> tuple[list[Any], list[Place]]:
    """The idle workers if all of them answer, otherwise a new group. Raises LostWorkerError."""
    if idle:
        with suppress(RayError):
            return idle, _places(idle, compared, IDLE_ANSWER_S)
    _kill(idle)
    workers = _start_workers(cluster)
    try:
        return workers, _places(workers, compared, max(stall_s, STARTING_S))
    except RayError as error:
        _kill(workers)
        raise LostWorkerError(describe(error, "a worker that was starting")) from None


def _places(workers: list[Any], compared: bool, within_s: float) -> list[Place]:
    """Where the workers run. Raises RayError if one of them is gone or does not answer."""
    return list(ray.get([worker.place.remote(compared) for worker in workers], timeout=within_s))


def _kill(workers: list[Any]) -> None:
    for worker in workers:
        ray.kill(worker)


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
