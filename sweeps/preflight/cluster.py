"""The machines of a study: whether a cluster answers, and whether a trial's worker group and its model fit."""

import json
import math
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.planning.schema import Schema
from sweeps.planning.settings import Cluster
from sweeps.preflight import machine
from transformer.schema import Problem, RefusedError

ANSWER_S = 3.0
"""How long the head of a cluster may take to accept a connection."""
NODES_S = 8.0
"""How long it may take to list its nodes."""
BYTES_PER_PARAMETER = 16
"""In training: the weight, its gradient and Adam's two moments, 4 bytes each. Activations come on top."""
COUNTED_BY_RAY = 0.7  # of a machine's memory; the rest is for Ray's own objects
LARGEST_GPU = 288 * 10**9  # bytes; of GPUs on other nodes, Ray tells only the number
NOT_REACHED = "must be the address of a running Ray cluster, auto for the cluster that this machine joined, or null"
GIVE_TOKEN = "set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN (or ~/.ray/auth_token) as on its head"


@dataclass(frozen=True)
class Node:
    """CPUs and GPUs of one machine, in all and free, and bytes of memory; ``gpu_memory`` is 0 if it is unknown."""

    total: dict[str, float]
    free: dict[str, float] = field(default_factory=dict)
    memory: float = math.inf
    gpu_memory: int = 0


def nodes_of(cluster: Cluster) -> list[Node]:
    """The machines on which trials will run. Raises RefusedError if the cluster does not answer."""
    if cluster.address is None:
        return [this_machine(with_gpus=cluster.gpus_per_worker > 0)]
    address = (os.environ.get("RAY_ADDRESS") if cluster.address == "auto" else None) or cluster.address
    _refuse_silent_head(address)
    asked = [(node["total"], node["free"]) for node in _asked(address)]
    return [Node(total, free, total.get("memory", math.inf) / COUNTED_BY_RAY) for total, free in asked]


def this_machine(with_gpus: bool) -> Node:
    gpus = machine.gpu_memories() if with_gpus else []
    total = {"CPU": float(machine.cpus()), "GPU": float(len(gpus))}
    return Node(total, total, machine.memory(), max(gpus, default=0))


def group_problems(cluster: Cluster, nodes: list[Node]) -> Iterator[Problem]:
    """A worker group that never fits would wait for ever. Each worker must fit on one node."""
    for kind, each, key in (
        ("CPU", cluster.cpus_per_worker, "cluster.cpus_per_worker"),
        ("GPU", cluster.gpus_per_worker, "cluster.gpus_per_worker"),
    ):
        places = sum(int(node.total.get(kind, 0) // each) for node in nodes) if each else cluster.workers
        if places >= cluster.workers:
            continue
        if places and cluster.workers > 1:
            found = f"is {cluster.workers}, and each needs {each:g} {kind}"
            yield Problem("cluster.workers", found, f"must be at most {places}; {_have(kind, cluster, nodes)}")
        else:
            yield Problem(key, f"is {each:g}", f"each worker must fit on one machine; {_have(kind, cluster, nodes)}")


def memory_problems(plan: Plan, nodes: list[Node]) -> Iterator[Problem]:
    """Models that no machine here can hold."""
    cluster = plan.composition.shared.cluster
    limit, where = _memory_of_a_worker(cluster, nodes)
    large = [planned for planned in plan.pending if _bytes_in_training(planned) > limit]
    if large:
        yield _too_large(max(large, key=_bytes_in_training), len(large), limit, where)


def _bytes_in_training(planned: PlannedTrial) -> int:
    """0 if the number of parameters is unknown."""
    return BYTES_PER_PARAMETER * (planned.costs.params or 0)


def _memory_of_a_worker(cluster: Cluster, nodes: list[Node]) -> tuple[float, str]:
    """The most bytes that a worker can have, and of what. Workers on one machine share its memory."""
    if cluster.gpus_per_worker:
        return float(max(node.gpu_memory for node in nodes) or LARGEST_GPU), "the largest GPU"
    largest = max(node.memory for node in nodes)
    return largest / (cluster.workers if len(nodes) == 1 else 1), "each worker's share of the memory"


def _too_large(planned: PlannedTrial, count: int, limit: float, where: str) -> Problem:
    others = f" (and {count - 1} other trials)" * (count > 1)
    params = planned.costs.params or 0
    found = f"of {planned.trial.name}{others} gives {_many(params)} parameters, which need"
    found += f" {_bytes(BYTES_PER_PARAMETER * params)}"
    return Problem(_largest_key(planned), found, f"must fit into {where}, {_bytes(limit)}")


def _largest_key(planned: PlannedTrial) -> str:
    """The size that most likely was mistyped: the largest whole number under model or data, or of any group."""
    values = Schema.of(planned.task).values(planned.config)
    whole = {key: value for key, value in values.items() if type(value) is int}
    sizes = {key: value for key, value in whole.items() if key.startswith(("model.", "data."))} or whole
    return max(sizes, key=lambda key: sizes[key], default="model")


def _have(kind: str, cluster: Cluster, nodes: list[Node]) -> str:
    totals = [node.total.get(kind, 0) for node in nodes]
    if cluster.address is None:
        return f"this machine has {totals[0]:g} {kind}{'s' * (totals[0] != 1)}"
    free = sum(node.free.get(kind, 0) for node in nodes)
    each = f" ({' + '.join(f'{total:g}' for total in totals)})" if len(totals) > 1 else ""
    return f"the cluster has {sum(totals):g}{each} {kind}s, of which {free:g} are free"


def _refuse_silent_head(address: str) -> None:
    """Raises RefusedError unless the head accepts a connection. Ray alone would try for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():  # auto: Ray looks for a cluster on this machine
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        raise _unreached(address, f"nothing answers there: {error.strerror or error}") from None


def _asked(address: str) -> list[dict[str, dict[str, float]]]:
    """The nodes of the cluster, from a process that has little time. Raises RefusedError."""
    command = [sys.executable, "-m", "sweeps.preflight.ask_cluster", address]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=NODES_S, check=False, env=os.environ)
    except subprocess.TimeoutExpired:
        raise _unreached(address, f"it did not list its nodes within {NODES_S:g} s; is it a Ray head?") from None
    if answer.returncode == 0:
        nodes: list[dict[str, dict[str, float]]] = json.loads(answer.stdout.splitlines()[-1])
        return nodes
    if "token" in answer.stderr.lower():
        raise _unreached(address, "its token is missing or incorrect", GIVE_TOKEN)
    raise _unreached(address, (answer.stderr.strip().splitlines() or ["no reason given"])[-1])


def _unreached(address: str, cause: str, allowed: str = NOT_REACHED) -> RefusedError:
    return RefusedError([Problem("cluster.address", f"is {address}, but {cause}", allowed)])


def _many(count: float) -> str:
    return f"{count:.3g}" if count >= 1e12 else f"{count / 1e9:.3g} billion"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
