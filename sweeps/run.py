"""Running a plan: prepare data once, schedule the trials on Ray, write down what they report, carry it to MLflow."""

import os
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock
from rich.console import Console
from rich.markup import escape

from sweeps.plan import Plan, PlannedTrial, known_study, recorded
from sweeps.progress import Progress
from sweeps.record import Recorder, check_vocabulary, holding
from sweeps.repair import readable, refuse_unreadable, repair
from sweeps.settings import Cluster
from sweeps.stopping import Stopping
from sweeps.syncing import syncing
from tracking.damage import unless_damaged
from tracking.study import write_study
from transformer.data.prepare import Prepared, check_lengths, prepare, prepared_folder
from transformer.schema import Problem, RefusedError

QUIET = {
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
    with taking(plan, command, console) as stopping:
        if plan.pending:
            with Progress(plan, console) as progress:
                _run_on_ray(plan, progress, stopping)


@contextmanager
def taking(plan: Plan, command: list[str], console: Console) -> Iterator[Stopping]:
    """Make the plan this process's: its trials locked, its data ready, the study written, its journals carried."""
    stopping = Stopping()
    with ExitStack() as stack:
        stack.enter_context(stopping.watching())
        known_study(plan.folder)  # a damaged one is refused before its data is prepared
        refuse_unreadable(plan)
        texts = _prepare_data(plan, console)
        (plan.folder / ".locks").mkdir(parents=True, exist_ok=True)
        for planned in plan.pending:
            stack.enter_context(holding(planned.folder))
        repair(plan, console)
        _refuse_other_vocabularies(plan, texts)
        with FileLock(plan.folder / ".locks" / "study"):
            write_study(recorded(plan, command))
        console.print(f"{escape(plan.folder.name)}: {len(plan.pending)} of {len(plan.trials)} trials to run")
        with syncing(plan.trials[0].settings, console):
            yield stopping


def _prepare_data(plan: Plan, console: Console) -> dict[str, Prepared]:
    """Prepare every corpus of the plan, and refuse models that could not take its sentences. By fingerprint.

    Reads no file of a trial: a damaged one is repaired under the trial's lock, and a refused study makes no lock.
    """
    texts: dict[str, Prepared] = {}
    corpora = {trial.fingerprint: trial for trial in plan.pending}
    for planned in corpora.values():
        data = Path(planned.settings.paths.data)
        if not (console.is_terminal or prepared_folder(data, planned.fingerprint).is_dir()):
            console.print(f"Preparing {planned.settings.data.name}")  # where no spinner turns
        with console.status(f"Preparing {planned.settings.data.name}"):
            texts[planned.fingerprint] = prepared = prepare(planned.settings.data, data, planned.fingerprint)
            prepared.check()
        peers = [trial for trial in plan.pending if trial.fingerprint == planned.fingerprint]
        problems = [problem for peer in peers for problem in check_lengths(prepared, peer.settings.model)]
        if problems:
            raise RefusedError(dict.fromkeys(problems))
    return texts


def _refuse_other_vocabularies(plan: Plan, texts: dict[str, Prepared]) -> None:
    """All trials of the plan with the same text share one vocabulary.

    The finished ones are asked too: a trial whose own record was damaged may not go on with another one.
    """
    problems: list[Problem] = []
    for planned in plan.trials:
        if planned.fingerprint in texts:
            check = partial(check_vocabulary, texts[planned.fingerprint], planned.folder)
            problems += unless_damaged(check, [])  # still damaged: another process has that trial, and repairs it
    if problems:
        raise RefusedError(dict.fromkeys(problems))


def _run_on_ray(plan: Plan, progress: Progress, stopping: Stopping) -> None:
    """Queue the pending trials, longest first, over the resources there are."""
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    import ray
    from ray import tune

    from sweeps.scribe import Scribe
    from sweeps.trial import bundles, run_trial, start_bell

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
        told = scribe.stopping.told(error, scribe.progress.left())  # first: a further signal may end the rest
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
    """A gang that can never be placed would wait for ever: its workers may lie on several nodes, but each on one."""
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
