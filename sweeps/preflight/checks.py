"""Everything that is looked at before anything starts: `allelse plan --check`, `sweep` and `train` share it."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.filesize import decimal

from sweeps.config.files import BASE
from sweeps.config.schema import Schema
from sweeps.config.settings import Cluster, Settings
from sweeps.planning.compose import compose_base
from sweeps.planning.composition import Composition
from sweeps.planning.naming import chosen, command, naming
from sweeps.planning.plan import Plan, PlannedTrial, configurations
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
from sweeps.processes.ray_private import JOB
from sweeps.schema import Problem, RefusedError
from tracking.words import plural

OF_ALL_ROWS = ("cluster",)
"""Overrides that no row changes, besides the names and places of a study."""


def checked(make: Callable[[], Plan], overrides: list[str], one_process: bool = False) -> tuple[Plan, list[str]]:
    """The plan that ``make`` makes, if it can run, and notices on it. ``one_process`` is for `allelse train`.

    Raises RefusedError with all problems: of the rows, the places, the addresses and the machines.
    """
    try:
        plan = make()
    except RefusedError as error:
        raise RefusedError(dict.fromkeys([*error.problems, *_problems_without_plan(overrides, one_process)])) from None
    shared = plan.composition.shared
    problems = [
        *_shared_problems(shared, one_process),
        *disk_problems(plan),
        *name_problems(plan),
        *_data_problems(plan),
        *step_problems(plan),
    ]
    several = _several_workers(plan, overrides) if one_process else []
    notices: list[str] = []
    if plan.pending and not several:
        found, notices = _machines(shared, plan)
        problems += found
    if problems or several:
        raise RefusedError(dict.fromkeys(_placed([*problems, *several], plan.composition)))
    if shared.tracking.enabled:
        notices = [*store_notices(shared.tracking.uri), *notices]
    return plan, notices


def node_faults(shared: Settings) -> list[str]:
    """Why trials cannot run on some nodes of a cluster by now, in one line each: a node may have joined meanwhile."""
    problems = _machines(shared)[0] if shared.cluster.address else []
    return [f"{problem.found}; {problem.allowed}" for problem in problems]


def _several_workers(plan: Plan, overrides: list[str]) -> list[Problem]:
    """A problem if the trial of `allelse train` is to have several workers, with the sweep that does it."""
    workers = plan.composition.shared.cluster.workers
    if workers == 1:
        return []
    trial = plan.trials[0].trial
    own_seed = Schema.of(plan.task).seed or "sweep.seeds"
    selecting = "row=", "sweep.rows=", "sweep.seeds=", f"{own_seed}="
    others = [override for override in overrides if not override.startswith(selecting)]
    chosen_trial = [f"sweep.rows=[{trial.row}]", f"sweep.seeds=[{trial.seed}]"]
    option = ["--add"] if plan.added else []
    sweep = command("sweep", *chosen_trial, *others, *option)
    found = f"is {workers}, but `allelse train` runs one process"
    return [Problem("cluster.workers", found, f"run `{sweep}`")]


def _problems_without_plan(overrides: list[str], one_process: bool) -> list[Problem]:
    """Problems of what all rows share, for overrides that give no plan; none if these are wrong themselves."""
    try:
        base = compose_base([*naming(overrides), *chosen(overrides, OF_ALL_ROWS)])
    except RefusedError:
        return []
    return _placed([*_shared_problems(base.shared, one_process), *_machines(base.shared)[0]], base)


def _placed(problems: list[Problem], composition: Composition) -> list[Problem]:
    """The problems with the place that sets each key: the command line, or a line of a file."""
    return [replace(problem, place=problem.place or composition.place(problem.key, BASE)) for problem in problems]


def _shared_problems(shared: Settings, one_process: bool) -> list[Problem]:
    """Of what all rows share, but for the machines."""
    own_ray = () if one_process else own_ray_problems(shared.cluster)
    store = store_problems(shared.tracking.uri, Path(shared.paths.runs)) if shared.tracking.enabled else []
    return [*place_problems(shared.paths), *store, *own_ray]


def _data_problems(plan: Plan) -> Iterator[Problem]:
    """What is known of data that is not prepared yet; the rest shows once it is."""
    task = plan.task
    waiting = (each for each in plan.pending if task.prepare is None or not each.prepared_folder.is_dir())
    for config in configurations(waiting):
        yield from task.data_problems(config, None)


def _machines(shared: Settings, plan: Plan | None = None) -> tuple[list[Problem], list[str]]:
    """Problems of the machines, and notices on them."""
    try:
        with question_to(shared, plan) as asked:
            nodes = nodes_of(shared.cluster, asked)
    except RefusedError as error:
        return error.problems, []
    problems = [*group_problems(shared.cluster, nodes), *(memory_problems(plan, nodes) if plan else ())]
    return [*problems, *node_problems(nodes, shared)], list(node_notices(nodes, shared))


DASHBOARD = "aiohttp", "aiohttp_cors", "grpc", "opencensus", "prometheus_client", "pydantic"
"""What ``ray.dashboard.optional_deps`` imports. Ray itself may not be imported yet, and brings only some of it."""


def own_ray_problems(cluster: Cluster) -> Iterator[Problem]:
    """Why a sweep cannot start a Ray, if ``cluster.address`` says that it does."""
    if cluster.address is not None:
        return
    yield from ray_folder_problems()
    if JOB in os.environ:
        found = "is null, but within a job of a Ray cluster no other Ray can start"
        yield Problem("cluster.address", found, "type cluster.address=auto, which takes this cluster")
    missing = [name for name in DASHBOARD if importlib.util.find_spec(name) is None]
    if cluster.dashboard and missing:
        found = f"is true, but Ray's dashboard lacks packages here: {', '.join(missing)}"
        yield Problem("cluster.dashboard", found, 'type `pip install "allelse[dashboard]"`, or leave it out')


BYTES_IN_TRAINING = 16
"""In training: the weight, its gradient and Adam's two moments, 4 bytes each. Activations come on top."""
ROUNDING = 1e-6
LARGEST_GPU = 288 * 10**9  # bytes; of GPUs on other nodes, Ray tells only the number


def group_problems(cluster: Cluster, nodes: list[Node]) -> Iterator[Problem]:
    """If no worker group fits, it would wait for ever. Each worker must fit on one node."""
    needs = {"CPU": cluster.cpus_per_worker, "GPU": cluster.gpus_per_worker}
    needs = {kind: each for kind, each in needs.items() if each}
    fits = sum(min(_times(node.total.get(kind, 0), each) for kind, each in needs.items()) for node in nodes)
    if fits >= cluster.workers:
        return
    lacking = [need for need in needs if not any(_times(node.total.get(need, 0), needs[need]) for node in nodes)]
    have = ", and ".join(_have(kind, cluster, nodes) for kind in lacking or needs)
    if fits and cluster.workers > 1:
        found = (
            f"is {cluster.workers}, and each needs {' and '.join(f'{each:g} {kind}' for kind, each in needs.items())}"
        )
        yield Problem("cluster.workers", found, f"must be at most {fits}; {have}")
    else:
        kind = next(iter([*lacking, *reversed(needs)]))
        found = f"is {needs[kind]:g}"
        allowed = f"each worker must fit on one machine; {have}"
        yield Problem(f"cluster.{kind.lower()}s_per_worker", found, allowed)


def _times(total: float, each: float) -> int:
    """How many shares fit: five of 0.2 in 1, although 1 // 0.2 is 4."""
    return int(total / each + ROUNDING)


def memory_problems(plan: Plan, nodes: list[Node]) -> Iterator[Problem]:
    """If no machine here can hold the largest model. The number of parameters may be unknown."""
    limit, where = _memory_of_a_worker(plan.composition.shared.cluster, nodes)
    planned = max(plan.pending, key=lambda each: each.costs.params or 0)
    params = planned.costs.params or 0
    if (needed := BYTES_IN_TRAINING * params) > limit:
        found = f"of {planned.trial.name} gives {params:,} parameters, which need {decimal(needed)}"
        yield Problem(_largest_key(planned), found, f"must fit into {where}, {decimal(int(limit))}")


def _memory_of_a_worker(cluster: Cluster, nodes: list[Node]) -> tuple[float, str]:
    """The most bytes that a worker can have, and of what. Workers on one machine share its memory."""
    if cluster.gpus_per_worker:
        return float(max(node.gpu_memory for node in nodes) or LARGEST_GPU), "the largest GPU"
    largest = max(node.memory for node in nodes)
    return largest / (cluster.workers if len(nodes) == 1 else 1), "each worker's share of the memory"


def _largest_key(planned: PlannedTrial) -> str:
    """The size that most likely was mistyped: the largest whole number under model or data, or of any group."""
    values = Schema.of(planned.task).values(planned.config)
    whole = {key: value for key, value in values.items() if type(value) is int}
    sizes = {key: value for key, value in whole.items() if key.startswith(("model.", "data."))} or whole
    return max(sizes, key=lambda key: sizes[key], default="model")


def _have(kind: str, cluster: Cluster, nodes: list[Node]) -> str:
    totals = [node.total.get(kind, 0) for node in nodes]
    if cluster.address is None:
        return f"this machine has {totals[0]:g} {plural(kind, totals[0])}"
    free = sum(node.free.get(kind, 0) for node in nodes)
    each = f" ({' + '.join(f'{total:g}' for total in totals)})" if len(totals) > 1 else ""
    return f"the cluster has {sum(totals):g}{each} {kind}s, of which {free:g} are free"
