"""How many trials run side by side, and how long all of them take then."""

import heapq
import os
from collections.abc import Iterable, Mapping, Sequence

from sweeps.config.settings import Cluster
from sweeps.preflight.machine import cpus
from sweeps.worker.pace import gpu_models

ROUNDING = 1e-6
VISIBLE = "CUDA_VISIBLE_DEVICES"


def slots_of(cluster: Cluster, nodes: Iterable[Mapping[str, float]]) -> int:
    """How many worker groups fit on nodes with these resources, by kind: {"CPU": 2.0, "GPU": 0.0}."""
    need = {"CPU": float(cluster.cpus_per_worker), "GPU": cluster.gpus_per_worker}
    workers = 0
    for node in nodes:
        shares = [int(node.get(kind, 0.0) / amount + ROUNDING) for kind, amount in need.items() if amount]
        workers += min(shares)
    return workers // cluster.workers


def this_machine() -> dict[str, float]:
    """Its CPUs and GPUs. Imports no torch."""
    visible = os.environ.get(VISIBLE)
    gpus = len(gpu_models()) if visible is None else len([name for name in visible.split(",") if name.strip()])
    return {"CPU": float(cpus()), "GPU": float(gpus)}


def ends(durations: Sequence[float], slots: int, start_seconds: float = 0.0) -> list[float]:
    """When each trial ends, in seconds from the start: each begins, in this order, as soon as a slot is free.

    The first trial of each slot waits for the start of its workers.
    """
    free = [start_seconds for _ in range(slots)]
    moments = list[float]()
    for duration in durations:
        end = heapq.heappop(free) + duration
        heapq.heappush(free, end)
        moments.append(end)
    return moments
