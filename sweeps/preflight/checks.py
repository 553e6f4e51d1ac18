"""Everything that is looked at before anything starts: `allelse plan --check`, `sweep` and `train` share it."""

import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from sweeps.config.hydra import option
from sweeps.config.library import COMMAND_LINE, place_of
from sweeps.config.overrides import parse_overrides
from sweeps.config.schema import Schema
from sweeps.config.settings import Cluster, Settings
from sweeps.planning.compose import compose_settings
from sweeps.planning.naming import chosen, naming
from sweeps.planning.plan import Plan, configurations
from sweeps.planning.task_of import library_of
from sweeps.preflight.cluster import group_problems, memory_problems
from sweeps.preflight.differences import node_notices, node_problems
from sweeps.preflight.nodes import nodes_of
from sweeps.preflight.places import disk_problems, name_problems, place_problems, store_notices, store_problems
from sweeps.preflight.question import question
from sweeps.processes.ray_private import JOB
from sweeps.schema import Problem, RefusedError
from tracking.words import shell_line

SHARED = ("cluster",)
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
    ]
    several = _several_workers(plan, overrides) if one_process else []
    notices: list[str] = []
    if plan.pending and not several:
        found, notices = _machines(shared, plan)
        problems += found
    if problems or several:
        raise RefusedError(dict.fromkeys(_placed([*problems, *several], overrides)))
    return plan, [*store_notices(shared.tracking.uri), *notices]


def node_faults(shared: Settings) -> list[str]:
    """Why trials cannot run on some nodes of a cluster by now, in one line each: a node may have joined meanwhile."""
    problems = _machines(shared)[0] if shared.cluster.address else []
    return [f"{problem.found}; {problem.allowed}" for problem in problems]


def _several_workers(plan: Plan, overrides: list[str]) -> list[Problem]:
    """A problem if the trial of `allelse train` is to have several workers, with the sweep that does it."""
    workers = plan.composition.shared.cluster.workers
    if workers == 1:
        return []
    trial, own_seed = plan.trials[0].trial, Schema.of(plan.task).seed or "sweep.seeds"
    selecting = "row=", "sweep.rows=", "sweep.seeds=", f"{own_seed}="
    others = [override for override in overrides if not override.startswith(selecting)]
    chosen_trial = [f"sweep.rows=[{trial.row}]", f"sweep.seeds=[{trial.seed}]"]
    command = shell_line(["allelse", "sweep", *chosen_trial, *others, *["--add"] * bool(plan.added)])
    found = f"is {workers}, but `allelse train` runs one process"
    return [Problem("cluster.workers", found, f"run `{command}`")]


def _problems_without_plan(overrides: list[str], one_process: bool) -> list[Problem]:
    """Problems of what all rows share, for overrides that give no plan; none if these are wrong themselves."""
    try:
        shared = compose_settings([*naming(overrides), *chosen(overrides, SHARED)])
    except RefusedError:
        return []
    problems, _ = _machines(shared)
    return _placed([*_shared_problems(shared, one_process), *problems], overrides)


def _placed(problems: list[Problem], overrides: list[str]) -> list[Problem]:
    """The problems with the place that sets each key: the command line, or a line of a file."""
    library = library_of(overrides, Path.cwd())
    typed, _ = parse_overrides(overrides, library)
    options = [option(group, name) for group, name in typed.choices.items() if group != "row"]

    def place(key: str) -> str | None:
        return COMMAND_LINE if key in typed.values else place_of(key, library.hydra, *options)

    return [replace(problem, place=problem.place or place(problem.key)) for problem in problems]


def _shared_problems(shared: Settings, one_process: bool) -> list[Problem]:
    """Of what all rows share, but for the machines."""
    own_ray = () if one_process else own_ray_problems(shared.cluster)
    return [*place_problems(shared.paths), *store_problems(shared.tracking.uri, Path(shared.paths.runs)), *own_ray]


def _data_problems(plan: Plan) -> Iterator[Problem]:
    """What is known of data that is not prepared yet; the rest shows once it is."""
    task = plan.task
    waiting = (each for each in plan.pending if task.prepare is None or not each.prepared_folder.is_dir())
    for config in configurations(waiting):
        yield from task.data_problems(config, None)


def _machines(shared: Settings, plan: Plan | None = None) -> tuple[list[Problem], list[str]]:
    """Problems of the machines, and notices on them."""
    try:
        with question(shared, plan) as asked:
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
    if JOB in os.environ:
        found = "is null, but within a job of a Ray cluster no other Ray can start"
        yield Problem("cluster.address", found, "type cluster.address=auto, which takes this cluster")
    missing = [name for name in DASHBOARD if importlib.util.find_spec(name) is None]
    if cluster.dashboard and missing:
        found = f"is true, but Ray's dashboard lacks packages here: {', '.join(missing)}"
        yield Problem("cluster.dashboard", found, 'type `pip install "allelse[dashboard]"`, or leave it out')
