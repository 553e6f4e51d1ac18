"""Run a plan: prepare its data once, schedule its trials on Ray, record their events, carry them to MLflow."""

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
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # we handle Ctrl-C, and print the next command
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
}


def run_plan(plan: Plan, command: list[str], console: Console) -> None:
    """Run the pending trials; the study on disk holds their results. Raises RefusedError, Interrupted."""
    plan = readable(plan, console)
    with open_study(plan, command, console) as (plan, stopping):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping)


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping) -> None:
    """Queue the pending trials, longest first, on the available resources."""
    os.environ.update({name: os.environ.get(name, value) for name, value in RAY_ENV.items()})
    import ray
    from ray import tune

    from sweeps.running.tune_callback import TuneCallback
    from sweeps.running.worker_group import bundles, run_trial, start_bell

    cluster = plan.trials[0].settings.cluster
    recorders = {planned.trial.name: Recorder(planned) for planned in plan.pending}
    _connect(cluster, stopping)
    try:
        check_resources([node["Resources"] for node in ray.nodes() if node["Alive"]], plan.trials[0])
        assignments = {name: recorder.assignment() for name, recorder in recorders.items()}
        bell = start_bell()
        callback = TuneCallback(recorders, progress, stopping, bell)
        trainable = tune.with_parameters(run_trial, assignments=assignments, cluster=cluster, bell=bell)
        with tempfile.TemporaryDirectory(prefix="ablate-") as storage, _interruptible(callback), stopping.gentle():
            tune.Tuner(
                tune.with_resources(trainable, bundles(cluster)),
                param_space={"trial": tune.grid_search(list(recorders)), "again": None},
                tune_config=tune.TuneConfig(reuse_actors=True),
                run_config=tune.RunConfig(
                    storage_path=storage,
                    verbose=0,
                    callbacks=[callback],
                    failure_config=tune.FailureConfig(max_failures=plan.trials[0].settings.sweep.max_failures),
                ),
            ).fit()
    finally:
        ray.shutdown()


@contextmanager
def _interruptible(callback: Any) -> Iterator[None]:
    """On an interruption, end the open attempts and raise Interrupted with one line per running trial."""
    try:
        yield
    except KeyboardInterrupt as error:
        # first: another signal may end what follows
        interrupted = callback.stopping.with_lines(error, callback.progress.left())
        callback.end()
        raise interrupted from None


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
    except SystemExit:  # Ray's own SIGTERM handler, until ours is back
        stopping.note(signal.SIGTERM)
        raise stopping.interrupted(()) from None
    except Exception as error:  # Ray fails to start with many types of errors, even a bare Exception
        found = f"Ray did not start on this machine: {error}" if here else f"{cluster.address}: {error}"
        allowed = "must be the address of a running Ray cluster, auto for the cluster that this machine joined, or null"
        looking = "free memory and processors, or read the logs in /tmp/ray/session_latest/logs"
        raise RefusedError([Problem("cluster.address", found, looking if here else allowed)]) from error
    finally:
        stopping.install()


@contextmanager
def _own_groups() -> Iterator[None]:
    """Each process that Ray starts leads a new process group.

    timeout(1) and a closed terminal send a signal to our whole group. The trials need Ray's processes to stop with a
    checkpoint, so the signal must not reach these.
    """
    from ray._private import services

    popen = services.ConsolePopen
    services.ConsolePopen = partial(popen, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = popen


def check_resources(nodes: list[dict[str, float]], planned: PlannedTrial) -> None:
    """Refuse a worker group that never fits: it would wait forever. Each worker must fit on one node."""
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
