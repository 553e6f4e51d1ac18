"""What a node of a cluster has. Nodes with different files of allelse or a different torch would
give other results.

``python -m sweeps.preflight.node_facts ADDRESS LIST_S ANSWER_S MARK`` asks the nodes of a Ray
cluster, with the question from standard input. It runs as a separate process, since a hanging
connection could not be ended otherwise. Ray sends the code of ``facts`` to nodes that may lack our
packages, so it and the functions it calls need only Python.
"""

import hashlib
import importlib.util
import json
import math
import signal
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from sweeps.problems import Problem
from sweeps.processes.ray_private import check_token, free_by_node, sweep_job

OUR_PACKAGES = ("sweeps", "tracking", "transformer", "allelse")
Packages = dict[str, str | None]


def facts(question: dict[str, Any]) -> dict[str, Any]:
    """This node's answer: its packages, which of the question's files it sees, and why it cannot
    run the trials."""
    answer: dict[str, Any] = packages()
    visible = {key: _sees(file) for key, file in question["files"].items()}
    answer |= {"seen": visible, "problems": []}
    if answer["digest"] == question["digest"]:  # only then does this node have our code
        from sweeps.preflight.node_trials import problems_here

        answer["problems"] = problems_here(question["trials"], visible)
    return answer


def _sees(file: str) -> bool:
    """Whether this node can see the file; False if its storage cannot be read."""
    try:
        return Path(file).exists()
    except OSError:
        return False


def packages() -> Packages:
    """What must be the same on all nodes: a digest of our source files, and versions. None means
    not installed."""
    folders = [_folder(name) for name in OUR_PACKAGES]
    installed = [folder for folder in folders if folder is not None]
    return {
        "digest": digest(installed) if len(installed) == len(folders) else None,
        "allelse": _version("allelse"),
        "place": folders[0],
        "torch": _version("torch"),
    }


def _folder(package: str) -> str | None:
    """The folder that the package would be imported from. Doesn't import it, which would take
    seconds."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.origin or not spec.submodule_search_locations:
        return None
    return spec.submodule_search_locations[0]


def digest(folders: list[str]) -> str:
    """SHA-256 of all Python files in the folders. Checkouts with the same version number may differ
    in content."""
    result = hashlib.sha256()
    for folder in map(Path, folders):
        # Emacs locks are broken links, which are no files.
        paths = [path for path in folder.rglob("*.py") if path.is_file()]
        for path in sorted(paths):
            name = f"{folder.name}/{path.relative_to(folder).as_posix()}"
            result.update(f"{name}\0".encode())
            result.update(hashlib.sha256(path.read_bytes()).digest())
    return result.hexdigest()


def _version(name: str) -> str | None:
    """The version in the package's metadata, as pip shows it; None if it is not installed."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def package_problems(node: Packages, ours: Packages) -> Iterator[Problem]:
    """How the packages of a node differ from those of this machine."""
    key = "cluster.address"
    version = ours["allelse"] or "this version"
    if node["digest"] is None:
        fix = f"install allelse {version} for the Python that starts Ray there"
        yield Problem(key, "allelse is not installed", fix)
    elif node["digest"] != ours["digest"]:
        node_version = f"allelse {node['allelse']} in {node['place']}"
        fault = f"{node_version} differs from {version} in {ours['place']} here"
        fix = "must be the same version or commit on every node, and unchanged while a sweep runs"
        yield Problem(key, fault, fix)
    if _public(node["torch"]) != _public(ours["torch"]):
        fault = f"torch is {node['torch']}" if node["torch"] else "torch is not installed"
        yield Problem(key, fault, f"must be {ours['torch']}, as here")


def _public(version: str | None) -> str | None:
    """The version without its build, such as cpu or cu128: nodes may have different hardware."""
    return version and version.partition("+")[0]


def main() -> None:
    """Print one line: MARK, then the live nodes as JSON, each with its name, total and free
    resources, and answer.

    If the cluster does not list its nodes within LIST_S, SIGALRM ends this process. A node that
    does not answer within ANSWER_S after that has the answer None; a node that was not asked has
    {}.
    """
    import ray

    address = sys.argv[1]
    list_s = int(sys.argv[2])
    answer_s = float(sys.argv[3])
    mark = sys.argv[4]
    question = json.load(sys.stdin)
    signal.alarm(list_s)
    try:
        nodes = _list_nodes(address)
    except Exception as error:  # Ray fails to connect with many types of errors
        sys.exit(" ".join(str(error.__cause__ or error).split()) or type(error).__name__)
    signal.alarm(list_s + math.ceil(answer_s))
    if question is not None:
        _ask(nodes, question, answer_s)
    print(f"{mark}{json.dumps(nodes)}", flush=True)
    ray.shutdown()


def _list_nodes(address: str) -> list[dict[str, Any]]:
    """Connect to the cluster and list its live nodes, in the order of their addresses. Raises many
    types of errors."""
    import ray

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
    """Ask all nodes on which a worker fits at once, and set their answers. Removes nodes that Ray
    lost meanwhile."""
    import ray
    from ray.exceptions import TaskUnschedulableError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    node_by_reference = {}
    for node in nodes:
        if _fits_worker(node, question["worker"]):
            on_node = NodeAffinitySchedulingStrategy(node["id"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(facts)
            reference = task.options(scheduling_strategy=on_node).remote(question)
            node_by_reference[reference] = node
            node["answer"] = None
    if not node_by_reference:
        return
    references = list(node_by_reference)
    ready, _ = ray.wait(references, num_returns=len(references), timeout=within_s)
    for reference in ready:
        node = node_by_reference[reference]
        try:
            node["answer"] = ray.get(reference)
        except TaskUnschedulableError:  # the task needs no resources, so the node is gone
            nodes.remove(node)
        except Exception as error:  # any error, including those of the code that ran on the node
            node["answer"] = {"failed": str(error).strip().splitlines()[-1]}


def _fits_worker(node: dict[str, Any], needs: dict[str, float]) -> bool:
    return all(node["total"].get(resource, 0) >= amount for resource, amount in needs.items())


if __name__ == "__main__":
    main()
