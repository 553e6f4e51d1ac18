"""The machines of a study: this one, or the nodes of a cluster, what they are asked, what they answer and lack."""

import json
import math
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from sweeps.config.settings import Cluster, Paths, Settings
from sweeps.config.study_faults import address_problems
from sweeps.planning.naming import some_of
from sweeps.planning.plan import Plan
from sweeps.preflight.machine import cpus, gpu_memories, memory
from sweeps.preflight.node_facts import Packages, other_packages, packages
from sweeps.preflight.node_trials import BYTES
from sweeps.preflight.places import local, nearest_existing
from sweeps.processes.ray_private import LOGS, REQUEST_S
from sweeps.processes.times import HEAD_CONNECTS_S, JOINED_S, NODE_ANSWER_S, NODES_S
from sweeps.schema import Problem, RefusedError

MODULE = "-P", "-m", "sweeps.preflight.node_facts"  # -P: files of the current folder hide none of ours
NODES_MARK = "nodes: "
COUNTED_BY_RAY = 0.7  # of a machine's memory; the rest is for Ray's own objects
NOT_REACHED = "must be the address of a running Ray cluster, auto for the cluster that this machine joined, or null"
START_AGAIN = "type `ray status` to see the nodes, and `ray start` where one is missing"
UNJOINED = {
    "token": ("its token is missing or incorrect", "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as on its head"),
    "no node info found": ("this machine is not one of its nodes", "type `ray start --address={address}` here first"),
    "version mismatch": ("", "must run the same Python and the same Ray as this machine"),
}
"""By what Ray prints where it cannot join a cluster: why, if that is not Ray's last line, and what to do."""
Question = dict[str, Any]
"""Plain data, which a node can read that lacks our packages."""


@dataclass(frozen=True)
class Node:
    """CPUs and GPUs of one machine, in all and free, and bytes of memory; ``gpu_memory`` is 0 if it is unknown.

    ``answer`` is what it says of itself: {} if it was not asked, None if it did not answer.
    """

    total: dict[str, float]
    free: dict[str, float] = field(default_factory=dict)
    memory: float = math.inf
    gpu_memory: int = 0
    name: str = ""
    answer: dict[str, Any] | None = field(default_factory=dict)


def nodes_of(cluster: Cluster, question: Question | None = None, answer_s: float = NODE_ANSWER_S) -> list[Node]:
    """The machines on which trials will run. Raises RefusedError if the cluster does not answer.

    Each node on which a worker fits is asked the ``question``.
    """
    if cluster.address is None:
        return [this_machine(with_gpus=cluster.gpus_per_worker > 0)]
    by_ray = os.environ.get("RAY_ADDRESS") if cluster.address == "auto" else None
    try:
        return _nodes_at(by_ray or cluster.address, question, answer_s)
    except RefusedError as error:
        if not by_ray:
            raise
        named = "is auto, and RAY_ADDRESS"
        raise RefusedError(replace(each, found=f"{named} {each.found}") for each in error.problems) from None


def _nodes_at(address: str, question: Question | None, answer_s: float) -> list[Node]:
    if problems := list(address_problems(address)):
        raise RefusedError(problems)
    _refuse_silent_head(address)
    asked = _asked(address, question, answer_s)
    if not asked:
        raise _unreached(address, "none of its nodes is alive", START_AGAIN)
    memories = [each["total"].get("memory", math.inf) / COUNTED_BY_RAY for each in asked]
    return [
        Node(each["total"], each["free"], memory, 0, each["name"], each["answer"])
        for each, memory in zip(asked, memories, strict=True)
    ]


def this_machine(with_gpus: bool) -> Node:
    gpus = gpu_memories() if with_gpus else []
    total = {"CPU": float(cpus()), "GPU": float(len(gpus))}
    return Node(total, total, memory(), max(gpus, default=0))


def _refuse_silent_head(address: str) -> None:
    """Raises RefusedError unless the head accepts a connection. Ray alone would try for minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():  # auto: Ray looks for a cluster on this machine
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=HEAD_CONNECTS_S).close()
    except OSError as error:
        raise _unreached(address, f"nothing answers there: {error.strerror or error}") from None


def _asked(address: str, question: Question | None, answer_s: float) -> list[dict[str, Any]]:
    """The nodes of the cluster, from a process that has little time. Raises RefusedError."""
    command = [sys.executable, *MODULE, address, str(NODES_S), str(answer_s), NODES_MARK]
    answer = subprocess.run(
        command,
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, REQUEST_S: str(JOINED_S)},
    )
    for line in answer.stdout.splitlines():
        if line.startswith(NODES_MARK):  # even if it could not leave the cluster in order
            nodes: list[dict[str, Any]] = json.loads(line.removeprefix(NODES_MARK))
            return nodes
    if answer.returncode == -signal.SIGALRM:
        raise _unreached(address, f"it did not list its nodes within {NODES_S} s; is it a Ray head?")
    raise _unjoined(address, answer.stderr.strip())


def _unjoined(address: str, printed: str) -> RefusedError:
    """Why this machine cannot join the cluster, by what Ray printed."""
    if not printed:
        return _unreached(address, "the connection ended: Ray's node process on this machine may be gone", START_AGAIN)
    error = printed.splitlines()[-1]
    words = (of for mark, of in UNJOINED.items() if mark in printed.lower())
    cause, allowed = next(words, (error, NOT_REACHED))
    return _unreached(address, cause or error, allowed.format(address=address))


def _unreached(address: str, cause: str, allowed: str = NOT_REACHED) -> RefusedError:
    return RefusedError([Problem("cluster.address", f"is {address}, but {cause}", allowed)])


SHOWN_NODES = 3
"""So many are named; the others are counted."""


def node_problems(nodes: list[Node], shared: Settings, answer_s: float = NODE_ANSWER_S) -> list[Problem]:
    """Nodes without our packages or with others, without the study's checkpoints, and where its trials cannot run."""
    ours = packages()
    having: dict[Problem, list[str]] = {}
    for node in nodes:
        for problem in [*_problems(node, ours, answer_s), *_unshared_checkpoints(node, shared)]:
            having.setdefault(problem, []).append(node.name)
    return [replace(each, found=f"on {some_of(names, SHOWN_NODES)}: {each.found}") for each, names in having.items()]


def node_notices(nodes: list[Node], shared: Settings) -> Iterator[str]:
    """A line if some nodes do not see the folder of the data: trials run nevertheless."""
    key, task = "paths.data", shared.source.task
    effect = "the data must lie there, too" if task.prepare is None else "the data is prepared there once more"
    if names := [node.name for node in nodes if not _sees(node, key)]:
        where = f"{key}: {shared.paths.data} is not shared by {some_of(names, SHOWN_NODES)}"
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


@contextmanager
def question_to(shared: Settings, plan: Plan | None) -> Iterator[Question | None]:
    """Within it, the named files exist: one in each shared folder, or in the one in which it would be created.

    None if this machine alone runs the study.
    """
    cluster = shared.cluster
    if cluster.address is None:
        yield None
        return
    with ExitStack() as stack:
        files: dict[str, str] = {}
        for key, folder in shared_folders(shared.paths).items():
            with suppress(OSError):  # a folder that cannot be written to is refused as such
                place = nearest_existing(folder)
                files[key] = stack.enter_context(NamedTemporaryFile(prefix=".allelse-", dir=place)).name
        yield {
            "worker": {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker},
            "digest": packages()["digest"],
            "files": files,
            "trials": _trials(shared, plan),
        }


def checkpoint_place(paths: Paths) -> tuple[str, str]:
    """The key that sets where checkpoints go, and its value."""
    return ("paths.runs", paths.runs) if paths.checkpoints is None else ("paths.checkpoints", paths.checkpoints)


def shared_folders(paths: Paths) -> dict[str, Path]:
    """The local folders that workers use, by key. The sweep's process alone writes the rest of ``paths.runs``."""
    key, place = checkpoint_place(paths)
    folders = {key: local(place), "paths.data": Path(paths.data)}
    return {key: folder for key, folder in folders.items() if folder is not None}


def _trials(shared: Settings, plan: Plan | None) -> dict[str, Any]:
    """For ``problems_here`` there: task, its files and data. Without a plan, the task itself may be wrong."""
    found: dict[str, Any] = {"checkpoints": checkpoint_place(shared.paths), "task": None}
    found["gpus"] = shared.cluster.gpus_per_worker
    if plan is None:
        return found
    data = {
        planned.fingerprint: {
            "config": asdict(planned.config),
            "folder": planned.settings.paths.data,
            "fingerprint": planned.fingerprint,
            "code": planned.code,
        }
        for planned in plan.pending
    }
    source = shared.source
    code = plan.code and {
        "files": {name: content.decode(BYTES) for name, content in plan.code.files.items()},
        "roots": dict(plan.code.roots),
    }
    of_task = {"task": source.name, "folder": source.folder, "study": str(plan.folder)}
    return {**found, **of_task, "code": code, "data": list(data.values())}
