"""Running a plan: prepare data once, schedule the trials on Ray, write down what they report, carry it to MLflow."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from rich.console import Console

from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.planning.settings import Cluster
from sweeps.running.open_study import open_study
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.repair import readable
from sweeps.running.stopping import Stopping
from transformer.schema import Problem, RefusedError

RAY_ENV = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C is ours: it must end with what to type next
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
}


def run_plan(plan: Plan, command: list[str], console: Console) -> None:
    """Run what is pending; afterwards the study on disk says how it went. Raises RefusedError, Interrupted."""
    plan = readable(plan, console)
    with open_study(plan, command, console) as (plan, stopping):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping)


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping) -> None:
    """Queue the pending trials, longest first, over the resources there are."""
    os.environ.update({name: os.environ.get(name, value) for name, value in RAY_ENV.items()})
    import ray
    from ray import tune

    from sweeps.running.tune_callback import Scribe
    from sweeps.running.worker_group import bundles, run_trial, start_bell

    cluster = plan.trials[0].settings.cluster
    recorders = {planned.trial.name: Recorder(planned) for planned in plan.pending}
    _connect(cluster, stopping)
    try:
        check_resources([node["Resources"] for node in ray.nodes() if node["Alive"]], plan.trials[0])
        assignments = {name: recorder.assignment() for name, recorder in recorders.items()}
        bell = start_bell()
        scribe = Scribe(recorders, progress, stopping, bell)
        trainable = tune.with_parameters(run_trial, assignments=assignments, cluster=cluster, bell=bell)
        with tempfile.TemporaryDirectory(prefix="ablate-") as storage, _left(scribe), stopping.gentle():
            tune.Tuner(
                tune.with_resources(trainable, bundles(cluster)),
                param_space={"trial": tune.grid_search(list(recorders)), "again": None},
                tune_config=tune.TuneConfig(reuse_actors=True),
                run_config=tune.RunConfig(
                    storage_path=storage,
                    verbose=0,
                    callbacks=[scribe],
                    failure_config=tune.FailureConfig(max_failures=plan.trials[0].settings.sweep.max_failures),
                ),
            ).fit()
    finally:
        ray.shutdown()


@contextmanager
def _left(scribe: Any) -> Iterator[None]:
    """Around the sweep: left in the middle, its open attempts end, and what is lost by it is told."""
    try:
        yield
    except KeyboardInterrupt as error:
        told = scribe.stopping.with_lines(error, scribe.progress.left())  # first: a further signal may end the rest
        scribe.end()
        raise told from None


def _connect(cluster: Cluster, stopping: Stopping) -> None:
    """This machine alone, or the cluster at ``cluster.address``."""
    import ray

    here = cluster.address is None
    try:
        with _own_groups():
            ray.init(
                address=cluster.address or "local",
                include_dashboard=False if here else None,
                log_to_driver=False,
                logging_level="ERROR",
            )
    except SystemExit:  # Ray's own answer to SIGTERM, until ours is back
        stopping.note(signal.SIGTERM)
        raise stopping.interrupted(()) from None
    except Exception as error:  # what Ray raises where it cannot start is of many kinds, also a bare Exception
        found = f"Ray did not start on this machine: {error}" if here else f"{cluster.address}: {error}"
        allowed = "must be the address of a running Ray cluster, auto for the one this machine has joined, or null"
        looking = "free memory and processors, or see the logs in /tmp/ray/session_latest/logs"
        raise RefusedError([Problem("cluster.address", found, looking if here else allowed)]) from error
    finally:
        stopping.install()


@contextmanager
def _own_groups() -> Iterator[None]:
    """Each process that Ray starts leads a process group of its own. A signal to ours, as timeout(1) and a closed
    terminal send it, would end them at once, but the trials need them to stop with a checkpoint."""
    from ray._private import services

    popen = services.ConsolePopen
    services.ConsolePopen = partial(popen, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = popen


def check_resources(nodes: list[dict[str, float]], planned: PlannedTrial) -> None:
    """Refuse a worker group that can never be placed: it would wait forever. One worker needs one node."""
    cluster = planned.settings.cluster
    for kind, each, key in (
        ("CPU", cluster.cpus_per_worker, "cluster.cpus_per_worker"),
        ("GPU", cluster.gpus_per_worker, "cluster.gpus_per_worker"),
    ):
        places = sum(int(node.get(kind, 0) // each) for node in nodes) if each else cluster.workers
        if places < cluster.workers:
            have = " + ".join(f"{node.get(kind, 0):g}" for node in nodes)
            allowed = (
                f"the cluster's nodes have {have} {kind}, and a trial of {cluster.workers} workers needs {each:g} each"
            )
            raise RefusedError([Problem(key, f"is {each:g}", allowed)])
