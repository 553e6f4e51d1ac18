"""Whether a trial's worker group and its model fit on the machines of a study."""

from collections.abc import Iterator

from sweeps.config.schema import Schema
from sweeps.config.settings import Cluster
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.preflight.nodes import Node
from sweeps.schema import Problem

BYTES_PER_PARAMETER = 16
"""In training: the weight, its gradient and Adam's two moments, 4 bytes each. Activations come on top."""
ROUNDING = 1e-6
LARGEST_GPU = 288 * 10**9  # bytes; of GPUs on other nodes, Ray tells only the number


def group_problems(cluster: Cluster, nodes: list[Node]) -> Iterator[Problem]:
    """A worker group that never fits would wait for ever. Each worker must fit on one node."""
    needs = {"CPU": float(cluster.cpus_per_worker), "GPU": float(cluster.gpus_per_worker)}
    needs = {kind: each for kind, each in needs.items() if each}
    alone = [problem for kind in needs for problem in _misfit({kind: needs[kind]}, cluster, nodes)]
    yield from alone or _misfit(needs, cluster, nodes)


def _misfit(needs: dict[str, float], cluster: Cluster, nodes: list[Node]) -> Iterator[Problem]:
    """If no worker group fits whose workers each need so much of these kinds of resources."""
    fits = sum(min(_times(node.total.get(kind, 0), each) for kind, each in needs.items()) for node in nodes)
    if fits >= cluster.workers:
        return
    have = ", and ".join(_have(kind, cluster, nodes) for kind in needs)
    if fits and cluster.workers > 1:
        each = " and ".join(f"{each:g} {kind}" for kind, each in needs.items())
        yield Problem(
            "cluster.workers", f"is {cluster.workers}, and each needs {each}", f"must be at most {fits}; {have}"
        )
    else:
        kind = next(reversed(needs))
        found = f"is {needs[kind]:g}"
        yield Problem(f"cluster.{kind.lower()}s_per_worker", found, f"each worker must fit on one machine; {have}")


def _times(total: float, each: float) -> int:
    """How many shares fit: five of 0.2 in 1, although 1 // 0.2 is 4."""
    return int(total / each + ROUNDING)


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


def _many(count: float) -> str:
    return f"{count:.3g}" if count >= 1e12 else f"{count / 1e9:.3g} billion"


def _bytes(count: float) -> str:
    return f"{count / 1e9:.3g} GB"
