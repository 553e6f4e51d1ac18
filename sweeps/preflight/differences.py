"""What the nodes of a cluster lack, each fault once with the nodes that have it; and notices on them."""

from collections.abc import Iterable, Iterator

from sweeps.config.settings import Settings
from sweeps.preflight.node_facts import Packages, packages
from sweeps.preflight.nodes import Node
from sweeps.preflight.question import checkpoint_place, locking_folders
from sweeps.processes.ray_private import LOGS
from sweeps.processes.times import NODE_ANSWER_S
from sweeps.schema import Problem

NAMED = 3
"""How many nodes are named before the rest is counted."""


def node_problems(nodes: list[Node], shared: Settings, answer_s: float = NODE_ANSWER_S) -> list[Problem]:
    """Nodes without our packages or with others, without the study's checkpoints, and where its trials cannot run."""
    ours = packages()
    having: dict[Problem, list[str]] = {}
    for node in nodes:
        for problem in [*_problems(node, ours, answer_s), *_unshared_checkpoints(node, shared)]:
            having.setdefault(problem, []).append(node.name)
    return [_on(problem, names) for problem, names in having.items()]


def node_notices(nodes: list[Node], shared: Settings) -> Iterator[str]:
    """Lines on a cluster on which trials run nevertheless."""
    yield from _unshared(nodes, shared)
    yield from _unlocked(nodes, shared)


def _unshared(nodes: list[Node], shared: Settings) -> Iterator[str]:
    """A line if some nodes do not see the folder of the data."""
    key, task = "paths.data", shared.source.task
    effect = "the data must lie there, too" if task.prepare is None else "the data is prepared there once more"
    if names := [node.name for node in nodes if not _sees(node, key)]:
        where = f"{key}: {shared.paths.data} is not shared by {_listed(names)}"
        yield f"{where}: {effect}. Share that folder, or name another."


def _unshared_checkpoints(node: Node, shared: Settings) -> Iterator[Problem]:
    """A trial that loses its node could not go on where its checkpoints are not seen."""
    key, place = checkpoint_place(shared.paths)
    if not _sees(node, key):
        allowed = "must be a folder that all nodes share, or paths.checkpoints an object store: s3://bucket/allelse"
        yield Problem(key, f"{place} is not shared", allowed)


def _sees(node: Node, key: str) -> bool:
    """Whether the node sees the folder of this key, as far as it was asked."""
    return not node.answer or bool(node.answer.get("seen", {}).get(key, True))


def _unlocked(nodes: list[Node], shared: Settings) -> Iterator[str]:
    """A line for each folder whose locks do not hold between machines."""
    effects = {
        "paths.runs": "two sweeps could train one trial",
        "paths.data": "two workers could prepare the same data",
    }
    for key, folder in locking_folders(shared.paths).items():
        names = [node.name for node in nodes if node.answer and key in node.answer.get("unlocked", ())]
        if names:
            found = f"{key}: {folder} has no locks between this machine and {_listed(names)}"
            yield f"{found}: {effects[key]}. Mount it with locks (flock) for all."


def _problems(node: Node, ours: Packages, answer_s: float) -> Iterator[Problem]:
    answer = node.answer
    if answer is None:
        found = f"no answer within {answer_s:g} s"
        yield Problem("cluster.address", found, "type `ray stop` there, or wait until Ray drops the node")
    elif "failed" in answer:
        yield Problem("cluster.address", answer["failed"], f"see Ray's logs there, in {LOGS}")
    elif answer:
        yield from other_packages(answer, ours)
        for problem in answer["problems"]:
            yield Problem(**problem)


def _on(problem: Problem, names: list[str]) -> Problem:
    found = f"on {_listed(names)}: {problem.found}"
    return Problem(problem.key, found, problem.allowed, problem.nearest, problem.place)


def _listed(names: Iterable[str]) -> str:
    *first, last = _shortened(list(names))
    return f"{', '.join(first)} and {last}" if first else last


def _shortened(names: list[str]) -> list[str]:
    return names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more nodes"]


def other_packages(theirs: Packages, ours: Packages) -> Iterator[Problem]:
    key, version, torch = "cluster.address", ours["allelse"] or "this version", ours["torch"]
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
