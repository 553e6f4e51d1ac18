"""A finished trial trained again with today's code, in a folder of its own that is removed in the end."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from sweeps.config.settings import Paths, Settings, Tracking
from sweeps.planning.plan import Plan, PlannedTrial
from sweeps.running.stopping import Interrupted
from sweeps.vouching.candidates import Candidate
from tracking.attempts import has_ended, own_process
from tracking.code import Code

FOLDER = ".vouching"
"""Beside the studies, so that all nodes of a cluster see it."""


@contextmanager
def retrial_folder(runs: Path) -> Iterator[Path]:
    """Gone at its end. What a killed process has left is removed by the next one."""
    home = runs / FOLDER
    home.mkdir(exist_ok=True)
    for path in home.iterdir():
        if has_ended(path.name.rpartition("-")[0]):
            shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{own_process().birth}-", dir=home))
    try:
        folder.chmod(0o755)  # workers may run as another user
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):  # another process compares, too
            home.rmdir()


def retrial_of(candidate: Candidate, plan: Plan, code: Code | None, folder: Path) -> Plan:
    """The plan of the trial alone, in a study of its own in ``folder``, with the workers and threads of its record."""
    digest = "" if code is None else code.digest
    settings = _settings(candidate.planned.settings, candidate, folder)
    planned = PlannedTrial(
        candidate.planned.trial, settings, candidate.planned.fingerprint, candidate.planned.costs, digest
    )
    composition = plan.composition
    rows = tuple(replace(row, settings=_settings(row.settings, candidate, folder)) for row in composition.rows)
    composition = replace(composition, rows=rows, base=_settings(composition.base, candidate, folder))
    return Plan(composition, (planned,), code=code, codes=(digest,) if digest else ())


def _settings(settings: Settings, candidate: Candidate, folder: Path) -> Settings:
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
    """Train it; its folder has the result, or says why there is none. Raises RefusedError, Interrupted, OSError."""
    from sweeps.running.sweep import run_plan  # loads what no refusal needs

    try:
        run_plan(plan, command, Console(quiet=True), tracked=False)
    except Interrupted as error:  # what was trained is removed: nothing resumes
        raise Interrupted(error.number, (), error.at_once, error.fault) from None
