"""What a node has, and whether it is what this machine has: other files of ours, or another torch, give other results.

``python -m sweeps.preflight.node_facts ADDRESS LIST_S ANSWER_S MARK`` asks the nodes of a Ray cluster. The question is
its standard input. It is a process of its own: a connection that hangs cannot be ended otherwise. Ray sends ``facts``
to the nodes as it is, so that and what it calls need nothing but Python itself.
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

from sweeps.processes.ray_private import check_token, free_by_node, sweep_job
from sweeps.schema import Problem

OUR_PACKAGES = ("sweeps", "tracking", "transformer", "allelse")
Packages = dict[str, str | None]


def facts(question: dict[str, Any]) -> dict[str, Any]:
    """Versions, which of the question's files this node sees, and what keeps it from running the study's trials."""
    found: dict[str, Any] = packages()
    seen = {key: _sees(file) for key, file in question["files"].items()}
    found |= {"seen": seen, "problems": []}
    if found["digest"] == question["digest"]:  # else ours cannot be asked here
        from sweeps.preflight.node_trials import problems_here

        found["problems"] = problems_here(question["trials"], seen)
    return found


def _sees(file: str) -> bool:
    """Storage that cannot be read is not seen."""
    try:
        return Path(file).exists()
    except OSError:
        return False


def packages() -> Packages:
    """What must be the same on all nodes, None if it is missing: our source files by one digest, and torch."""
    places = [_folder(name) for name in OUR_PACKAGES]
    ours = None if None in places else digest([place for place in places if place])
    return {"digest": ours, "allelse": _version("allelse"), "place": places[0], "torch": _version("torch")}


def _folder(package: str) -> str | None:
    """Where it would be imported from. It is not imported: that takes seconds."""
    spec = importlib.util.find_spec(package)
    return spec.submodule_search_locations[0] if spec and spec.origin and spec.submodule_search_locations else None


def digest(folders: list[str]) -> str:
    """Of all Python files: versions of a checkout have one number, and many contents."""
    whole = hashlib.sha256()
    for folder in map(Path, folders):
        for file in sorted(path for path in folder.rglob("*.py") if path.is_file()):  # Emacs locks by a broken link
            whole.update(f"{folder.name}/{file.relative_to(folder).as_posix()}\0".encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _version(name: str) -> str | None:
    """From the package's metadata, as pip shows it."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return None


def other_packages(theirs: Packages, ours: Packages) -> Iterator[Problem]:
    key = "cluster.address"
    version = ours["allelse"] or "this version"
    torch = ours["torch"]
    if theirs["digest"] is None:
        fix = f"install allelse {version} for the Python that starts Ray there"
        yield Problem(key, "allelse is not installed", fix)
    elif theirs["digest"] != ours["digest"]:
        found = f"allelse {theirs['allelse']} in {theirs['place']} differs from {version} in {ours['place']} here"
        yield Problem(key, found, "must be the same version or commit on every node, and unchanged while a sweep runs")
    if _public(theirs["torch"]) != _public(torch):
        found = f"torch is {theirs['torch']}" if theirs["torch"] else "torch is not installed"
        yield Problem(key, found, f"must be {torch}, as here")


def _public(version: str | None) -> str | None:
    """Without the build, such as cpu or cu128: nodes may have different hardware."""
    return version and version.partition("+")[0]


def main() -> None:
    """Print the nodes that are alive as JSON in a line after MARK: name, resources, those that are free, the answer.

    A cluster that does not list its nodes within LIST_S ends this process by SIGALRM. A node that does not answer
    within ANSWER_S more has the answer None; one that was not asked has {}.
    """
    import ray

    address = sys.argv[1]
    list_s = int(sys.argv[2])
    answer_s = float(sys.argv[3])
    mark = sys.argv[4]
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
    """Ask all nodes on which a worker fits, at the same time. One that was lost since Ray listed it is left out."""
    import ray
    from ray.exceptions import TaskUnschedulableError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    asked = {}
    for node in nodes:
        if all(node["total"].get(kind, 0) >= count for kind, count in question["worker"].items()):
            there = NodeAffinitySchedulingStrategy(node["id"], soft=False)
            send = ray.remote(num_cpus=0, max_retries=0)(facts).options(scheduling_strategy=there)
            asked[send.remote(question)] = node
            node["answer"] = None
    ready, _ = ray.wait(list(asked), num_returns=len(asked), timeout=within_s) if asked else ([], [])
    for reference in ready:
        node = asked[reference]
        try:
            node["answer"] = ray.get(reference)
        except TaskUnschedulableError:  # it needs no resources
            nodes.remove(node)
        except Exception as error:  # also of the code that ran there
            node["answer"] = {"failed": str(error).strip().splitlines()[-1]}


if __name__ == "__main__":
    main()
