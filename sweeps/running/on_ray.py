"""Run a plan: prepare its data once, schedule its trials on Ray, record their events, carry them to MLflow."""

import logging
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sweeps.planning.plan import Plan
from sweeps.planning.settings import Cluster, Settings
from sweeps.preflight import machine
from sweeps.preflight.node_facts import packages
from sweeps.processes.storage import FIXES, at_place
from sweeps.running.open_study import leave_study, open_study
from sweeps.running.own_temporary import own_temporary
from sweeps.running.patient_record import unrecorded_as_error
from sweeps.running.progress import Progress
from sweeps.running.recorder import Recorder
from sweeps.running.repair import readable
from sweeps.running.stopping import Stopping
from sweeps.schema import Problem, RefusedError
from tracking.shell import shell_line

RAY_ENV = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # we handle Ctrl-C, and print the next command
    "TUNE_GLOBAL_CHECKPOINT_S": "inf",  # we resume from the study, so Tune need not write its state while trials run
    "TUNE_MAX_PENDING_TRIALS_PG": "16",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",  # our own line names the cause
}


def run_plan(plan: Plan, command: list[str], console: Console) -> frozenset[str]:
    """Run the pending trials; the study on disk holds their results. Returns those that alone were asked to stop.

    Raises RefusedError, Interrupted, OSError.
    """
    plan = readable(plan, console)
    connect = partial(_connect, plan.composition.shared.cluster)
    with (
        unrecorded_as_error(),
        _disconnected_at_the_end(),
        open_study(plan, command, console, connect) as (plan, stopping),
    ):
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping, command)
        return stopping.trials


@contextmanager
def _disconnected_at_the_end() -> Iterator[None]:
    try:
        yield
    finally:
        if ray := sys.modules.get("ray"):
            ray.shutdown()


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping, command: list[str]) -> None:
    """Run the pending trials; in a further round those whose process died before they began."""
    from sweeps.running.bell import start_bell
    from sweeps.running.tune_callback import TuneCallback

    settings = plan.trials[0].settings
    recorders = {planned.trial.name: Recorder(planned) for planned in plan.pending}
    bell = start_bell()
    expected = packages() if settings.cluster.address else None  # one machine has nothing to compare
    callback = TuneCallback(recorders, progress, stopping, bell, settings.sweep.max_failures)
    with (
        own_temporary() as storage,
        _interruptible(callback),
        stopping.gentle(),
        _uncounted(),
        _watched(callback, partial(_leave, plan.folder, storage), command),
        at_place(storage),
    ):
        names = list(recorders)
        while names:
            callback.again.clear()
            callback.over = False
            assignments = {name: recorders[name].assignment() for name in names}
            _fit(settings, callback, storage, assignments=assignments, bell=bell, packages=expected)
            names = callback.again.copy()


def _fit(settings: Settings, callback: Any, storage: Path, **given: Any) -> None:
    """Queue the trials of ``given["assignments"]`` in their order on the available resources."""
    from ray import tune

    from sweeps.running.tune_callback import SilentProgress
    from sweeps.running.worker_group import bundles, run_trial

    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # our own lines say which trials failed, and why
    cluster, sweep, names = settings.cluster, settings.sweep, list(given["assignments"])
    order = iter(names)  # Tune copies a grid of n values n times
    trainable = tune.with_parameters(run_trial, cluster=cluster, stall_s=60 * sweep.stall_minutes, **given)
    tuner = tune.Tuner(
        tune.with_resources(trainable, bundles(cluster)),
        param_space={"trial": tune.sample_from(lambda _: next(order)), "again": None, "short": False},
        tune_config=tune.TuneConfig(reuse_actors=True, num_samples=len(names)),
        run_config=tune.RunConfig(
            storage_path=str(storage),
            verbose=0,
            callbacks=[callback, SilentProgress()],
            failure_config=tune.FailureConfig(max_failures=sweep.max_failures),
        ),
    )
    try:
        tuner.fit()
    except tune.TuneError as error:
        if isinstance(error.__context__, OSError) and error.__context__.errno in FIXES:  # of Tune's own files
            raise error.__context__ from None
        raise
    except ValueError:  # at its end Tune reads files of its own, which do not fit on a full disk; ours have the results
        if not callback.over:
            raise


@contextmanager
def _watched(callback: Any, leave: Callable[[], None], command: list[str]) -> Iterator[None]:
    """Within it, the end of Ray ends this process with one line and the command to type."""
    from sweeps.running.cluster_watch import ClusterWatch

    def record(cause: str) -> None:
        callback.end(f"lost: {cause}")
        leave()

    watch = ClusterWatch(lambda cause: callback.progress.give_up(cause, shell_line(command)), record)
    watch.start()
    try:
        yield
    finally:
        watch.close()


def _leave(study: Path, storage: Path) -> None:
    """Remove what the run would remove if it ended in order."""
    leave_study(study)
    shutil.rmtree(storage, ignore_errors=True)


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
    """Start Ray on this machine alone, or join the cluster at ``cluster.address``. Raises RefusedError."""
    os.environ.update({name: os.environ.get(name, value) for name, value in RAY_ENV.items()})
    import ray

    from sweeps.preflight.job import SweepJob

    here = cluster.address is None
    _print_no_messages()
    try:
        with _own_groups():
            ray.init(
                address=cluster.address or "local",
                job_config=SweepJob(),
                num_cpus=machine.cpus() if here else None,
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
        looking = "free up memory, CPUs and space in /tmp, or read the logs in /tmp/ray/session_latest/logs"
        raise RefusedError([Problem("cluster.address", found, looking if here else allowed)]) from error
    finally:
        stopping.install()


def _print_no_messages() -> None:
    """Ray prints messages of its processes, with their last log lines. Our own lines name the cause in one line."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):  # another version of Ray prints them elsewhere
        worker.print_to_stdstream = lambda *arguments, **options: None


@contextmanager
def _own_groups() -> Iterator[None]:
    """Each process that Ray starts leads a new process group.

    timeout(1) and a closed terminal send a signal to our whole group. The trials need Ray's processes to stop with a
    checkpoint, so the signal must not reach these.
    """
    from ray._private import services

    popen = getattr(services, "ConsolePopen", None)
    if popen is None:  # a Ray that starts its processes in another way: signals to the group end it, and trials resume
        yield
        return
    services.ConsolePopen = partial(popen, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = popen


@contextmanager
def _uncounted() -> Iterator[None]:
    """Without usage statistics, Tune does not count its callbacks by type: to do so, it imports all of MLflow."""
    usage = sys.modules.get("ray.air._internal.usage")
    count = getattr(usage, "tag_callbacks", None)
    if count is None or os.environ.get("RAY_USAGE_STATS_ENABLED") != "0":  # another version of Ray counts elsewhere
        yield
        return
    setattr(usage, "tag_callbacks", lambda callbacks: False)  # noqa: B010 - Ray has no types
    try:
        yield
    finally:
        setattr(usage, "tag_callbacks", count)  # noqa: B010
