"""Trains a finished trial again with today's code, in a temporary folder."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from sweeps.config.settings import Paths, Settings, Tracking
from sweeps.planning.plan import Plan
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.processes.interruption import Interrupted
from sweeps.vouching.candidates import Candidate
from tracking.attempts import has_ended, own_process
from tracking.code import Code

FOLDER = ".vouching"
"""The folder for these, next to the studies, so that all nodes of a cluster see it."""


@contextmanager
def retrial_folder(runs: Path) -> Iterator[Path]:
    """A new folder that is removed at the end. Also removes folders of processes that were
    killed."""
    parent = runs / FOLDER
    parent.mkdir(exist_ok=True)
    for path in parent.iterdir():
        process, _, _ = path.name.rpartition("-")
        if has_ended(process):
            shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{own_process().birth}-", dir=parent))
    try:
        folder.chmod(0o755)  # workers may run as a different user
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # not empty while another process retrains
            parent.rmdir()


def retrial_of(candidate: Candidate, plan: Plan, code: Code | None, folder: Path) -> Plan:
    """A plan of only this trial, in its own study in ``folder``, with the workers and threads of
    its record."""
    digest = "" if code is None else code.digest
    recorded = candidate.planned

    def adapt(settings: Settings) -> Settings:
        return _retrial_settings(settings, candidate, folder)

    settings = adapt(recorded.settings)
    planned = PlannedTrial(recorded.trial, settings, recorded.fingerprint, recorded.costs, digest)
    composition = plan.composition
    rows = tuple(replace(row, settings=adapt(row.settings)) for row in composition.rows)
    composition = replace(composition, rows=rows, base=adapt(composition.base))
    return Plan(composition, (planned,), code=code, codes=(digest,) if digest else ())


def _retrial_settings(settings: Settings, candidate: Candidate, folder: Path) -> Settings:
    """These settings in ``folder``, without tracking, with the candidate's workers, threads and
    GPUs."""
    cluster = replace(
        settings.cluster,
        workers=candidate.workers,
        cpus_per_worker=candidate.threads,
        gpus_per_worker=candidate.gpus,
        dashboard=False,
    )
    paths = Paths(str(folder), settings.paths.data, None)
    return replace(settings, cluster=cluster, paths=paths, tracking=Tracking(None, None))


def run_retrial(plan: Plan, command: list[str]) -> None:
    """Train the trial of the plan. Its folder then holds the result, or the cause if there is none.

    Raises RefusedError, Interrupted, OSError.
    """
    from sweeps.running.sweep import run_plan  # slow to import, and refusals don't need it

    try:
        run_plan(plan, command, Console(quiet=True), tracked=False)
    except Interrupted as error:  # names no trials to resume: the folder is removed
        raise Interrupted(error.number, (), error.at_once, error.fault) from None
