"""How many trials run at a time, and when each of them ends."""

import heapq
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from sweeps.config.settings import Cluster
from sweeps.preflight.machine import cpus, fitting_workers
from sweeps.worker.pace import gpu_models

VISIBLE = "CUDA_VISIBLE_DEVICES"


def slots_of(cluster: Cluster, nodes: Iterable[Mapping[str, float]]) -> int:
    """How many worker groups fit on nodes with these resources by kind: {"CPU": 2.0, "GPU":
    0.0}."""
    return sum(fitting_workers(cluster, node) for node in nodes) // cluster.workers


def this_machine() -> dict[str, float]:
    """The CPUs and GPUs of this machine, by kind. Doesn't import torch."""
    return {"CPU": float(cpus()), "GPU": float(len(visible_gpus()))}


def visible_gpus() -> list[str]:
    """The GPUs that CUDA shows to a process, as ``CUDA_VISIBLE_DEVICES`` names them: those before
    the first entry that is none, such as -1."""
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return [str(number) for number in range(len(gpu_models()))]
    names = (name.strip() for name in visible.split(","))
    return list(takewhile(lambda name: name and not name.startswith("-"), names))


def end_times(durations: Sequence[float], slots: int, start_seconds: float = 0.0) -> list[float]:
    """When each trial ends, in seconds from the start. Trials begin in this order, each as soon as
    a slot is free.

    The first trial of each slot waits ``start_seconds`` for its workers to start.
    """
    free_times = [start_seconds for _ in range(slots)]
    ends = list[float]()
    for duration in durations:
        end = heapq.heappop(free_times) + duration
        heapq.heappush(free_times, end)
        ends.append(end)
    return ends
