"""The nodes of a Ray cluster as JSON. A process of its own: a connection that hangs cannot be ended otherwise.

``python -m sweeps.preflight.ask_cluster ADDRESS LIST_S ANSWER_S MARK``, with the question to each node on standard
input. The answer's line begins with MARK, since Ray may print, too.
"""

import json
import math
import signal
import sys
from typing import Any

import ray
from ray.exceptions import TaskUnschedulableError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from sweeps.preflight import node_facts
from sweeps.processes.ray_private import check_token, free_by_node, sweep_job

GONE = object()


def main() -> None:
    """Print the nodes that are alive: name, resources, those that are free, and the answer.

    A cluster that does not list its nodes within LIST_S ends this process by SIGALRM. A node that does not answer
    within ANSWER_S more has the answer None; one that was not asked has {}.
    """
    address, list_s, answer_s, mark = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
    question = json.load(sys.stdin)
    signal.alarm(list_s)
    try:
        nodes = _listed(address)
    except Exception as error:  # Ray fails to connect with many types of errors
        sys.exit(" ".join(str(error.__cause__ or error).split()) or type(error).__name__)
    signal.alarm(list_s + math.ceil(answer_s))
    if question is not None:
        _ask(nodes, question, answer_s)
    print(f"{mark}{json.dumps(nodes)}", flush=True)
    ray.shutdown()


def _listed(address: str) -> list[dict[str, Any]]:
    check_token(address)
    ray.init(address=address, job_config=sweep_job(), log_to_driver=False, logging_level="CRITICAL")
    free = free_by_node()
    alive = [node for node in ray.nodes() if node["Alive"]]
    return [
        {
            "id": node["NodeID"],
            "name": _name(node["NodeManagerAddress"], node["NodeManagerHostname"]),
            "total": node["Resources"],
            "free": free.get(node["NodeID"], {}),
            "answer": {},
        }
        for node in sorted(alive, key=lambda node: node["NodeManagerAddress"])
    ]


def _name(address: str, host: str) -> str:
    return address if host in ("", address) else f"{address} ({host})"


def _ask(nodes: list[dict[str, Any]], question: dict[str, Any], within_s: float) -> None:
    """Ask all nodes on which a worker fits, at the same time."""
    ray.cloudpickle.register_pickle_by_value(node_facts)  # a node may lack it
    asked = {}
    for node in nodes:
        if all(node["total"].get(kind, 0) >= count for kind, count in question["worker"].items()):
            there = NodeAffinitySchedulingStrategy(node["id"], soft=False)
            send = ray.remote(num_cpus=0, max_retries=0)(node_facts.facts).options(scheduling_strategy=there)
            asked[send.remote(question)] = node
            node["answer"] = None
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=within_s) if asked else ([], [])
    for reference in ready:
        node = asked[reference]
        try:
            node["answer"] = ray.get(reference)
        except TaskUnschedulableError:  # it needs no resources: the node was lost since Ray listed it
            node["answer"] = GONE
        except Exception as error:  # also of the code that ran there
            node["answer"] = {"failed": str(error).strip().splitlines()[-1]}
    nodes[:] = [node for node in nodes if node["answer"] is not GONE]


if __name__ == "__main__":
    main()
