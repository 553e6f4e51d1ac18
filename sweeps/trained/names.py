"""Names on the command line: the folder that each stands for."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sweeps.config.settings import Settings
from sweeps.planning.stored_study import studies_there
from sweeps.schema import Problem, RefusedError, nearest
from tracking.mlflow.ledger import trial_of_run
from tracking.study import StudyMissing, read_study

KINDS = "must be a trial, the folder of a trial or checkpoint, or an MLflow run id"
SOME = 30  # names in a refusal, at most


def find(name: str, settings: Settings) -> Path:
    """The folder of the trial that ``name`` stands for, or the folder of this name.

    Raises RefusedError with the nearest known name. Raises DamagedFileError for a study that hides its trials.
    """
    runs = Path(settings.paths.runs)
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser().resolve()
    known = {trial: settings.study_folder / trial for trial in trials_of(settings.study_folder)}
    everywhere = {f"{study.name}/{trial}": study / trial for study in _studies(runs) for trial in trials_of(study)}
    found = known.get(name) or everywhere.get(name)
    if found is None and re.fullmatch("[0-9a-f]{32}", name):
        found = trial_of_run(runs, name)
    if found is None:
        with suppress(StudyMissing):
            read_study(settings.study_folder)
        raise RefusedError([_unknown(name, settings, list(known), list(everywhere))])
    return found


def trials_of(study: Path) -> list[str]:
    """The names of its trials; a damaged study hides only its own."""
    try:
        return [trial.name for trial in read_study(study).trials]
    except (StudyMissing, ValueError):
        return []


def _studies(runs: Path) -> Iterator[Path]:
    return (path.parent for path in sorted(runs.glob("*/study.json")))


def _unknown(name: str, settings: Settings, known: list[str], everywhere: list[str]) -> Problem:
    study, near = settings.study_folder.name, nearest(name, [] if "/" in name else known) or nearest(name, everywhere)
    same_name = [other for other in everywhere if other.rsplit("/", 1)[-1] == name]
    if not known:
        there = studies_there(Path(settings.paths.runs))
        found = f'is "{name}", but {settings.paths.runs} holds no study {study}; {there}'
    else:
        more = f" and {len(known) - SOME} more" if len(known) > SOME else ""
        found = f'is "{name}", but the trials of {study} are {", ".join(known[:SOME])}{more}'
    return Problem("TRIAL", found, KINDS, same_name[0] if same_name else near)
