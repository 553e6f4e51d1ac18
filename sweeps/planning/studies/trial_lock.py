"""One process at a time writes into a trial's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from sweeps.planning.studies.advice import command
from sweeps.planning.studies.published_copy import refuse_published
from sweeps.planning.studies.study_overrides import by_name, placed
from sweeps.problems import Problem, RefusedError
from tracking.activity.runners import holder_of
from tracking.trial import TrialFolder

UNKNOWN_HOLDER = "another process"
"""A process without a record does not run the study; `allelse evaluate` is one."""


@contextmanager
def trial_lock(folder: TrialFolder, allowed: str | None = None) -> Iterator[None]:
    """Keep other processes from writing the trial's folder. The lock ends with this process,
    however it ends.

    Raises RefusedError if the study is published, or if another process holds the lock, with
    ``allowed`` or with what follows and stops it.
    """
    study = folder.path.parent
    refuse_published(study)
    trial = folder.path.name
    lock = FileLock(study / ".locks" / trial, timeout=0)
    try:
        acquired = lock.acquire()
    except Timeout:
        raise RefusedError([_lock_problem(study, trial, allowed)]) from None
    with acquired:
        yield


def _lock_problem(study: Path, trial: str, allowed: str | None) -> Problem:
    holder = holder_of(study, trial)
    if not holder:
        return Problem(trial, f"is being run by {UNKNOWN_HOLDER}", "wait for it")
    fault = f"is being run by {holder}"
    return Problem(trial, fault, allowed or _how_to_follow_or_stop(study))


def _how_to_follow_or_stop(study: Path) -> str:
    overrides = [by_name(study), *placed(study)]
    status = command("status", *overrides)
    stop = command("stop", *overrides)
    return f"`{status} --watch` follows it, `{stop}` stops everything its process runs"
