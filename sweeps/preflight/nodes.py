"""The machines that run a study: this one or a cluster's nodes, the question to them, and problems
in their answers."""

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
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.studies.advice import some_of
from sweeps.preflight.machine import cpus, gpu_memories, memory
from sweeps.preflight.node_facts import Packages, package_problems, packages
from sweeps.preflight.places import local, nearest_existing
from sweeps.preflight.sent_code import to_plain
from sweeps.problems import Problem, RefusedError, refusal, refuse
from sweeps.processes.ray_private import LOGS, REQUEST_S
from sweeps.processes.times import HEAD_CONNECTS_S, JOINED_S, NODE_ANSWER_S, NODES_S

MODULE = ("-P", "-m", "sweeps.preflight.node_facts")
"""``-P`` keeps files in the current folder from hiding our modules."""
NODES_MARK = "nodes: "
RAY_MEMORY_SHARE = 0.7
"""The share of a machine's memory that Ray counts; it reserves the rest for its objects."""
NOT_REACHED = (
    "must be the address of a running Ray cluster, "
    "auto for the cluster that this machine joined, or null"
)
START_AGAIN = "type `ray status` to see the nodes, and `ray start` where one is missing"
UNJOINED = {
    "token": (
        "its token is missing or incorrect",
        "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN as on its head",
    ),
    "no node info found": (
        "this machine is not one of its nodes",
        "type `ray start --address={address}` here first",
    ),
    "version mismatch": ("", "must run the same Python and the same Ray as this machine"),
}
"""By words in Ray's output if it cannot join a cluster: the cause, "" for Ray's last line, and the
fix."""
Question = dict[str, Any]
"""Plain data, which nodes without our packages can read."""


@dataclass(frozen=True)
class Node:
    """A machine's CPUs and GPUs by kind, in total and free, and its memory in bytes.

    ``gpu_memory`` is 0 if unknown. ``answer`` is {} if the node was not asked, and None if it did
    not answer.
    """

    total: dict[str, float]
    free: dict[str, float] = field(default_factory=dict)
    memory: float = math.inf
    gpu_memory: int = 0
    name: str = ""
    answer: dict[str, Any] | None = field(default_factory=dict)


def nodes_of(cluster: Cluster, question: Question | None = None) -> list[Node]:
    """The machines on which trials will run. Raises RefusedError if the cluster does not answer.

    Sends ``question`` to each node on which a worker fits.
    """
    if cluster.address is None:
        return [this_machine(with_gpus=cluster.gpus_per_worker > 0)]
    ray_address = os.environ.get("RAY_ADDRESS") if cluster.address == "auto" else None
    try:
        return _nodes_at(ray_address or cluster.address, question)
    except RefusedError as error:
        if not ray_address:
            raise
        raise RefusedError(
            replace(problem, found=f"is auto, and RAY_ADDRESS {problem.found}")
            for problem in error.problems
        ) from None


def _nodes_at(address: str, question: Question | None) -> list[Node]:
    """The nodes of the cluster at this address. Raises RefusedError."""
    problems = list(address_problems(address))
    refuse(problems)
    _refuse_silent_head(address)
    node_fields = _query_nodes(address, question)
    if not node_fields:
        raise _unreached(address, "none of its nodes is alive", START_AGAIN)
    return [
        Node(
            total=fields["total"],
            free=fields["free"],
            memory=fields["total"].get("memory", math.inf) / RAY_MEMORY_SHARE,
            name=fields["name"],
            answer=fields["answer"],
        )
        for fields in node_fields
    ]


def this_machine(with_gpus: bool) -> Node:
    """This machine as a node. ``with_gpus`` imports torch to count the GPUs."""
    gpus = gpu_memories() if with_gpus else []
    total = {"CPU": float(cpus()), "GPU": float(len(gpus))}
    return Node(total, total, memory(), max(gpus, default=0))


def _refuse_silent_head(address: str) -> None:
    """Raise RefusedError if the head does not accept a connection, which Ray would try for
    minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal():  # auto: Ray looks for a cluster on this machine
        return
    head = (host.strip("[]"), int(port))
    try:
        socket.create_connection(head, timeout=HEAD_CONNECTS_S).close()
    except OSError as error:
        cause = f"nothing answers there: {error.strerror or error}"
        raise _unreached(address, cause) from None


def _query_nodes(address: str, question: Question | None) -> list[dict[str, Any]]:
    """The live nodes of the cluster and their answers, from a process with a time limit. Raises
    RefusedError."""
    command = [sys.executable, *MODULE, address, str(NODES_S), str(NODE_ANSWER_S), NODES_MARK]
    process = subprocess.run(
        command,
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, REQUEST_S: str(JOINED_S)},
    )
    for line in process.stdout.splitlines():
        if line.startswith(NODES_MARK):  # valid even if the process failed to leave the cluster
            nodes: list[dict[str, Any]] = json.loads(line.removeprefix(NODES_MARK))
            return nodes
    if process.returncode == -signal.SIGALRM:
        cause = f"it did not list its nodes within {NODES_S} s; is it a Ray head?"
        raise _unreached(address, cause)
    raise _unjoined(address, process.stderr.strip())


def _unjoined(address: str, output: str) -> RefusedError:
    """The refusal if this machine cannot join the cluster, from Ray's output."""
    if not output:
        cause = "the connection ended: Ray's node process on this machine may be gone"
        return _unreached(address, cause, START_AGAIN)
    last_line = output.splitlines()[-1]
    for mark, (cause, fix) in UNJOINED.items():
        if mark in output.lower():
            return _unreached(address, cause or last_line, fix.format(address=address))
    return _unreached(address, last_line)


def _unreached(address: str, cause: str, allowed: str = NOT_REACHED) -> RefusedError:
    return refusal("cluster.address", f"is {address}, but {cause}", allowed)


SHOWN_NODES = 3
"""Messages name this many nodes and count the rest."""


def node_problems(nodes: list[Node], shared: Settings) -> list[Problem]:
    """Why trials cannot run on some nodes. Each problem is reported once, with the nodes that have
    it."""
    ours = packages()
    names_by_problem: dict[Problem, list[str]] = {}
    for node in nodes:
        problems = [*_answer_problems(node, ours), *_checkpoint_problems(node, shared)]
        for problem in problems:
            names_by_problem.setdefault(problem, []).append(node.name)
    return [
        replace(problem, found=f"on {some_of(names, SHOWN_NODES)}: {problem.found}")
        for problem, names in names_by_problem.items()
    ]


def node_notices(nodes: list[Node], shared: Settings) -> Iterator[str]:
    """A line if some nodes do not see the data folder. Trials run anyway."""
    key = "paths.data"
    names = [node.name for node in nodes if not _sees(node, key)]
    if not names:
        return
    effect = "the data is prepared there again"
    if shared.task.prepare is None:
        effect = "the data must be there, too"
    fault = f"{shared.paths.data} is not shared by {some_of(names, SHOWN_NODES)}"
    yield f"{key}: {fault}: {effect}. Share that folder, or name another."


def _checkpoint_problems(node: Node, shared: Settings) -> Iterator[Problem]:
    """A problem if the node does not see the checkpoints, so that an interrupted trial could not
    resume there."""
    key, checkpoints = checkpoint_place(shared.paths)
    if not _sees(node, key):
        store = "paths.checkpoints an object store: s3://bucket/allelse"
        allowed = f"must be a folder that all nodes share, or {store}"
        yield Problem(key, f"{checkpoints} is not shared", allowed)


def _sees(node: Node, key: str) -> bool:
    """Whether the node sees this key's folder; True if it was not asked."""
    if not node.answer:
        return True
    return bool(node.answer.get("seen", {}).get(key, True))


def _answer_problems(node: Node, ours: Packages) -> Iterator[Problem]:
    """The problems that the node's answer shows, or that it gave none."""
    answer = node.answer
    if answer is None:
        fault = f"no answer within {NODE_ANSWER_S:g} s"
        fix = "type `ray stop` there, or wait until Ray drops the node"
        yield Problem("cluster.address", fault, fix)
    elif "failed" in answer:
        yield Problem("cluster.address", answer["failed"], f"see Ray's logs there, in {LOGS}")
    elif answer:
        yield from package_problems(answer, ours)
        for problem in answer["problems"]:
            yield Problem(**problem)


@contextmanager
def question_to(shared: Settings, plan: Plan | None) -> Iterator[Question | None]:
    """The question to the nodes; None if only this machine runs the study.

    Until the block ends, each shared folder holds a file, which the question names. If a folder
    does not exist yet, the file is in the folder in which it will be created.
    """
    cluster = shared.cluster
    if cluster.address is None:
        yield None
        return
    with ExitStack() as stack:
        files: dict[str, str] = {}
        for key, folder in shared_folders(shared.paths).items():
            with suppress(OSError):  # a different check refuses folders that cannot be written to
                existing = nearest_existing(folder)
                file = stack.enter_context(NamedTemporaryFile(prefix=".allelse-", dir=existing))
                files[key] = file.name
        yield {
            "worker": cluster.needs,
            "digest": packages()["digest"],
            "files": files,
            "trials": _trials(shared, plan),
        }


def checkpoint_place(paths: Paths) -> tuple[str, str]:
    """The key that sets where checkpoints go, and its value: a folder or a URL."""
    if paths.checkpoints is None:
        return "paths.runs", paths.runs
    return "paths.checkpoints", paths.checkpoints


def shared_folders(paths: Paths) -> dict[str, Path]:
    """The local folders that workers use, by key. Workers use ``paths.runs`` only if it holds the
    checkpoints."""
    key, checkpoints = checkpoint_place(paths)
    folders = {key: local(checkpoints), "paths.data": Path(paths.data)}
    return {key: folder for key, folder in folders.items() if folder is not None}


def _trials(shared: Settings, plan: Plan | None) -> dict[str, Any]:
    """The part of the question that ``problems_here`` reads: checkpoints, GPUs, and the task with
    its code and data.

    Without a plan the task is None, since it may be invalid.
    """
    trials: dict[str, Any] = {
        "checkpoints": checkpoint_place(shared.paths),
        "gpus": shared.cluster.gpus_per_worker,
        "task": None,
    }
    if plan is None:
        return trials
    source = shared.source
    data = {planned.fingerprint: _data(planned) for planned in plan.pending}
    return {
        **trials,
        "task": source.name,
        "folder": source.folder,
        "study": str(plan.folder),
        "code": to_plain(plan.code),
        "data": list(data.values()),
    }


def _data(planned: PlannedTrial) -> dict[str, Any]:
    return {
        "config": asdict(planned.config),
        "folder": planned.settings.paths.data,
        "fingerprint": planned.fingerprint,
        "code": planned.code,
    }
