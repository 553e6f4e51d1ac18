"""How many processes of a node the kernel has killed because memory ran out."""

import re
from pathlib import Path

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ANSWER_S = 10.0
"""How long to wait for another node: a process must start there."""


def memory_kills() -> int:
    """Of this machine, since it started; 0 where the kernel does not tell."""
    try:
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0


@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def remote_memory_kills() -> int:
    """``memory_kills``, of another node."""
    return memory_kills()


def kills_on(node: str) -> int:
    """``memory_kills`` of the node with this id; 0 if it does not answer."""
    if node == ray.get_runtime_context().get_node_id():
        return memory_kills()
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    try:
        return int(ray.get(remote_memory_kills.options(scheduling_strategy=where).remote(), timeout=ANSWER_S))
    except RayError:
        return 0
