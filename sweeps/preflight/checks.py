"""All checks before anything starts, shared by `allelse plan --check`, `sweep` and `train`."""

import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from rich.filesize import decimal

from sweeps.config.files import BASE
from sweeps.config.schema import Schema
from sweeps.config.settings import Cluster, Settings
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial, configurations
from sweeps.planning.studies.advice import command, some_of
from sweeps.planning.studies.study_overrides import chosen, naming
from sweeps.planning.study_rows.compose import compose_base
from sweeps.planning.study_rows.composed_rows import Composition
from sweeps.planning.study_rows.task_choice import library_of
from sweeps.preflight.machine import cards_without_bf16, fitting_workers, shares
from sweeps.preflight.nodes import Node, node_notices, node_problems, nodes_of, question_to
from sweeps.preflight.places import (
    disk_problems,
    name_problems,
    place_problems,
    ray_folder_problems,
    store_notices,
    store_problems,
)
from sweeps.preflight.scored_steps import step_problems
from sweeps.problems import Problem, RefusedError
from sweeps.processes.ray_private import JOB
from tracking.words import plural

SHARED_GROUPS = ("cluster",)
"""Groups of keys that are the same in all rows."""


def checked(
    make: Callable[[], Plan],
    overrides: list[str],
    one_process: bool = False,
) -> tuple[Plan, list[str]]:
    """Make the plan and check that it can run. Returns it with notices for the user.

    ``one_process`` is for `allelse train`. Raises RefusedError with all problems of the rows, the
    folders, the addresses and the machines.
    """
    try:
        plan = make()
    except RefusedError as error:
        problems = [*error.problems, *_problems_without_plan(overrides, one_process)]
        raise RefusedError(dict.fromkeys(problems)) from None
    shared = plan.shared
    problems = [
        *_shared_problems(shared, one_process),
        *disk_problems(plan),
        *name_problems(plan),
        *_data_problems(plan),
        *step_problems(plan),
    ]
    worker_problems = _worker_problems(plan, overrides) if one_process else []
    notices: list[str] = []
    if plan.pending and not worker_problems:
        machine_problems, notices = _machines(shared, plan)
        problems += machine_problems
    problems += worker_problems
    if problems:
        raise RefusedError(dict.fromkeys(_with_places(problems, plan.composition)))
    if shared.tracking.enabled:
        notices = [*store_notices(shared.tracking.uri), *notices]
    return plan, notices


def node_fault(shared: Settings) -> str | None:
    """Why trials cannot run on some nodes of a cluster now, in one line. Nodes may have joined
    since the plan."""
    if not shared.cluster.address:
        return None
    problems, _ = _machines(shared)
    return f"{problems[0].found}; {problems[0].allowed}" if problems else None


def _worker_problems(plan: Plan, overrides: list[str]) -> list[Problem]:
    """A problem if `allelse train` is asked for several workers. It suggests the sweep to run
    instead."""
    workers = plan.shared.cluster.workers
    if workers == 1:
        return []
    trial = plan.trials[0].trial
    seed_key = Schema.of(plan.task).seed or "sweep.seeds"
    selecting = ("row=", "sweep.rows=", "sweep.seeds=", f"{seed_key}=")
    unselecting = [override for override in overrides if not override.startswith(selecting)]
    selection = [f"sweep.rows=[{trial.row}]", f"sweep.seeds=[{trial.seed}]"]
    options = ["--add"] if plan.added else []
    sweep = command("sweep", *selection, *unselecting, *options)
    fault = f"is {workers}, but `allelse train` runs one process"
    return [Problem("cluster.workers", fault, f"run `{sweep}`")]


def _problems_without_plan(overrides: list[str], one_process: bool) -> list[Problem]:
    """The problems of shared settings if the overrides make no plan; [] if those settings are
    invalid, too."""
    try:
        shared = [*naming(overrides), *chosen(overrides, SHARED_GROUPS)]
        base = compose_base(shared, library_of(shared, Path.cwd(), trains=False))
    except RefusedError:
        return []
    problems = _shared_problems(base.shared, one_process)
    machine_problems, _ = _machines(base.shared)
    return _with_places([*problems, *machine_problems], base)


def _with_places(problems: list[Problem], composition: Composition) -> list[Problem]:
    """The problems, each with the place that sets its key: the command line, or a line of a
    file."""
    placed = list[Problem]()
    for problem in problems:
        place = problem.place or composition.place_of(problem.key, BASE)
        placed.append(replace(problem, place=place))
    return placed


def _shared_problems(shared: Settings, one_process: bool) -> list[Problem]:
    """The problems of the folders, the tracking store and our own Ray, which all rows share."""
    problems = place_problems(shared.paths)
    if shared.tracking.enabled:
        problems += store_problems(shared.tracking.uri, Path(shared.paths.runs))
    if not one_process:
        problems += own_ray_problems(shared.cluster)
    return problems


def _data_problems(plan: Plan) -> Iterator[Problem]:
    """The problems of data that is not prepared yet. More may show when it is prepared."""
    task = plan.task
    unprepared = plan.pending
    if task.prepare is not None:
        unprepared = [planned for planned in unprepared if not planned.data.folder.is_dir()]
    for config in configurations(unprepared):
        yield from task.data_problems(config, None)


def _machines(shared: Settings, plan: Plan | None = None) -> tuple[list[Problem], list[str]]:
    """The problems of the machines that will run trials, and notices for the user."""
    try:
        with question_to(shared, plan) as question:
            nodes = nodes_of(shared.cluster, question)
    except RefusedError as error:
        return error.problems, []
    problems = [*group_problems(shared.cluster, nodes)]
    if plan is not None:
        problems += [*memory_problems(plan, nodes), *precision_problems(plan)]
    return [*problems, *node_problems(nodes, shared)], list(node_notices(nodes, shared))


DASHBOARD = ("aiohttp", "aiohttp_cors", "grpc", "opencensus", "prometheus_client", "pydantic")
"""The imports of ``ray.dashboard.optional_deps``. Ray may not be imported yet, and installs only
some of them."""


def own_ray_problems(cluster: Cluster) -> Iterator[Problem]:
    """Why a sweep cannot start its own Ray; nothing if ``cluster.address`` names a cluster."""
    if cluster.address is not None:
        return
    yield from ray_folder_problems()
    if JOB in os.environ:
        fault = "is null, but a Ray job can't start a second Ray"
        fix = "type cluster.address=auto, which uses this cluster"
        yield Problem("cluster.address", fault, fix)
    missing = [package for package in DASHBOARD if importlib.util.find_spec(package) is None]
    if cluster.dashboard and missing:
        fault = f"is true, but Ray's dashboard lacks packages here: {', '.join(missing)}"
        fix = 'type `pip install "allelse[dashboard]"`, or omit it'
        yield Problem("cluster.dashboard", fault, fix)


BYTES_IN_TRAINING = 16
"""Bytes per parameter in training: weight, gradient, and Adam's two moments, 4 each. Activations
need more."""
SHOWN_CARDS = 3
"""So many kinds of cards are named; the others are counted."""
LARGEST_GPU = 288 * 10**9  # bytes; of GPUs on other nodes, Ray tells only the number


def group_problems(cluster: Cluster, nodes: list[Node]) -> Iterator[Problem]:
    """A problem if no worker group fits on the nodes: it would wait forever. Each worker must fit
    on one node."""
    needs = cluster.needs
    workers = sum(fitting_workers(cluster, node.total) for node in nodes)
    if workers >= cluster.workers:
        return
    lacking = [resource for resource in needs if not _fits_anywhere(resource, needs, nodes)]
    totals = [_total_text(resource, cluster, nodes) for resource in lacking or needs]
    available = ", and ".join(totals)
    if workers and cluster.workers > 1:
        need = " and ".join(f"{amount:g} {resource}" for resource, amount in needs.items())
        fault = f"is {cluster.workers}, and each needs {need}"
        yield Problem("cluster.workers", fault, f"must be at most {workers}; {available}")
    else:
        resource = lacking[0] if lacking else list(needs)[-1]
        key = f"cluster.{resource.lower()}s_per_worker"
        allowed = f"each worker must fit on one machine; {available}"
        yield Problem(key, f"is {needs[resource]:g}", allowed)


def _fits_anywhere(resource: str, needs: Mapping[str, float], nodes: list[Node]) -> bool:
    """Whether any node has enough of this resource for a worker."""
    return any(shares(node.total.get(resource, 0), needs[resource]) for node in nodes)


def memory_problems(plan: Plan, nodes: list[Node]) -> Iterator[Problem]:
    """A problem if no machine can hold the largest model, as far as the number of parameters is
    known."""
    limit, memory = _worker_memory(plan.shared.cluster, nodes)
    largest = max(plan.pending, key=lambda planned: planned.costs.params or 0)
    params = largest.costs.params or 0
    needed = BYTES_IN_TRAINING * params
    if needed > limit:
        name = largest.name
        fault = f"of {name} gives {params:,} parameters, which need {decimal(needed)}"
        allowed = f"must fit into {memory}, {decimal(int(limit))}"
        yield Problem(_largest_key(largest), fault, allowed)


def _worker_memory(cluster: Cluster, nodes: list[Node]) -> tuple[float, str]:
    """The most bytes that one worker can have, and the memory's name. Workers on one machine share
    its memory."""
    if cluster.gpus_per_worker:
        gpu_bytes = max(node.gpu_memory for node in nodes) or LARGEST_GPU
        return float(gpu_bytes), "the largest GPU"
    largest = max(node.memory for node in nodes)
    sharing = cluster.workers if len(nodes) == 1 else 1
    return largest / sharing, "each worker's share of the memory"


def precision_problems(plan: Plan) -> Iterator[Problem]:
    """GPUs of this machine without bfloat16, if trials are to train in it: torch would emulate it,
    slowly.

    Those of other nodes show on the worker: Ray hides every GPU from a task that takes none.
    """
    cluster = plan.shared.cluster
    task = plan.task
    if cluster.address is not None or cluster.gpus_per_worker == 0:
        return
    if all(task.precision(config) != "bf16" for config in configurations(plan.pending)):
        return
    cards = list(dict.fromkeys(cards_without_bf16()))
    if cards:
        found = f"is bf16, but {some_of(cards, SHOWN_CARDS)} cannot compute in it"
        key = task.precision_choice.key if task.precision_choice else "cluster.gpus_per_worker"
        yield Problem(key, found, "must be fp32 below compute capability 8.0")


def _largest_key(planned: PlannedTrial) -> str:
    """The key most likely mistyped: that of the largest integer under model or data, or else in any
    group."""
    values = planned.schema.values(planned.config)
    integer_keys = [key for key, value in values.items() if type(value) is int]
    size_keys = [key for key in integer_keys if key.startswith(("model.", "data."))]
    keys = size_keys or integer_keys
    return max(keys, key=lambda key: values[key], default="model")


def _total_text(resource: str, cluster: Cluster, nodes: list[Node]) -> str:
    """How much of a resource there is: "the cluster has 6 (4 + 2) CPUs, of which 3 are free"."""
    totals = [node.total.get(resource, 0) for node in nodes]
    if cluster.address is None:
        return f"this machine has {totals[0]:g} {plural(resource, totals[0])}"
    total = f"{sum(totals):g}"
    if len(totals) > 1:
        addends = " + ".join(f"{node_total:g}" for node_total in totals)
        total = f"{total} ({addends})"
    free = sum(node.free.get(resource, 0) for node in nodes)
    return f"the cluster has {total} {resource}s, of which {free:g} are free"
