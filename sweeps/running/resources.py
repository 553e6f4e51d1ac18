"""What trials need of a Ray cluster: how a worker group is placed, and why trials wait."""

import time
from typing import Any

import ray

from sweeps.config.settings import Cluster
from sweeps.processes.times import ASK_FREE_S, EXPLAINED_AFTER_S


def strategy(cluster: Cluster) -> str:
    """A worker group lies on one node if every node that takes a worker has room for all of them.

    Otherwise Ray puts as many workers as possible on one node, and the others on more: where only some nodes could
    hold a group, the others would stay idle.
    """
    usable = [node["Resources"] for node in ray.nodes() if node["Alive"] and _holds(node["Resources"], cluster, 1)]
    return "STRICT_PACK" if usable and all(_holds(node, cluster, cluster.workers) for node in usable) else "PACK"


def waiting_for(cluster: Cluster, free: dict[str, float]) -> str:
    """Such as "4 GPUs, 2 are free"; ``free`` holds what all nodes have left, by kind."""
    needs = {"GPU": cluster.gpus_per_worker * cluster.workers, "CPU": float(cluster.cpus_per_worker * cluster.workers)}
    short = {kind: count for kind, count in needs.items() if count > free.get(kind, 0)}
    kind = next(iter(short), "GPU" if needs["GPU"] else "CPU")
    free_of = free.get(kind, 0.0)
    verb = "is" if free_of == 1 else "are"
    spread = "" if kind in short else ", but not where a whole worker group fits"
    return f"{needs[kind]:g} {kind}{'s' * (needs[kind] != 1)}, {free_of:g} {verb} free{spread}"


class Wait:
    """How long no trial could run, and for what they wait. Ray is asked only then."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._since, self._asked, self._words = cluster, time.monotonic(), 0.0, ""

    def words(self, trials: list[Any]) -> str:
        """Such as "4 GPUs, 2 are free" after a wait of 30 s; "" while a trial runs."""
        now = time.monotonic()
        states = {trial.status for trial in trials}
        if "RUNNING" in states or "PENDING" not in states:
            self._since, self._words = now, ""
        elif now - self._since > EXPLAINED_AFTER_S and now - self._asked > ASK_FREE_S:
            self._asked, self._words = now, waiting_for(self._cluster, ray.available_resources())
        return self._words


def _holds(resources: dict[str, float], cluster: Cluster, workers: int) -> bool:
    cpus, gpus = cluster.cpus_per_worker * workers, cluster.gpus_per_worker * workers
    return resources.get("CPU", 0) >= cpus and resources.get("GPU", 0) >= gpus
