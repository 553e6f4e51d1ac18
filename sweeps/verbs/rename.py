"""``rename`` gives a row or a study another name, on disk and in MLflow."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sweeps.console import OUT, next_verb, print_line
from sweeps.planning.studies.advice import no_such_study
from sweeps.planning.studies.known_studies import known_study, study_names
from sweeps.planning.studies.published_copy import refuse_published
from sweeps.planning.studies.renaming import rename_row, rename_study, row_problems, study_problems
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.problems import Problem, RefusedError, refusal, refuse
from sweeps.verbs.command import guarded, names_and_overrides
from sweeps.verbs.remove import checkpoint_places, holding, trials_below, unsynced
from tracking.study import Study
from tracking.trial import TrialFolder

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="STUDY [ROW] NEW [KEY=VALUE …]",
        help="The study, the row if you rename one, and the new name.",
    ),
]
SHAPE = "type `allelse rename STUDY NEW`, or `allelse rename STUDY ROW NEW`"


@guarded
def rename(arguments: Names) -> None:
    """Rename a study or a row: its folders, its record and its runs in MLflow."""
    # Imports Hydra, which `--help` does not need.
    from sweeps.planning.studies.named_study import settings_to_read

    names, overrides = names_and_overrides(arguments)
    if len(names) not in (2, 3):
        raise refusal("NEW", "is missing, or there are too many names", SHAPE)
    settings = settings_to_read(overrides)
    study = _study(names[0], Path(settings.paths.runs))
    refuse_published(study.folder)
    row = names[1] if len(names) == 3 else None
    new_name = names[-1]
    renamed = _renamed(study, row, new_name, ["allelse", "rename", *arguments])
    print_line(OUT, f"Renamed {row or study.name} to {new_name}")
    settings = replace(settings, sweep=replace(settings.sweep, name=renamed.name))
    is_sent = _send_names(renamed, settings)
    next_verb("table" if is_sent else "sync", [by_name(renamed.folder), *chosen(overrides, PLACES)])


def _study(name: str, runs: Path) -> Study:
    """The study of this name. Raises RefusedError with the nearest one."""
    study = known_study(runs / name) if name in study_names(runs) else None
    if study is None:
        raise RefusedError([no_such_study("STUDY", name, runs)])
    return study


def _renamed(study: Study, row: str | None, new: str, typed: Sequence[str]) -> Study:
    """The study after the row, or the study itself, got its new name. Raises RefusedError.

    The locks of all its trials are held meanwhile.
    """
    folders = _folders(study, row, new)
    name_problems = study_problems(study, new) if row is None else row_problems(study, row, new)
    problems = [*name_problems, *_stored_elsewhere(folders)]
    refuse(problems)
    with holding([unsynced(study.folder), *map(trial_lock, folders)]):
        if row is None:
            return rename_study(study.folder, new, typed)
        return rename_row(study.folder, row, new, typed)


def _folders(study: Study, row: str | None, new: str) -> list[TrialFolder]:
    """The folders that move, under their old and their new names."""
    if row is None:
        return trials_below(study.folder)
    moving = [trial for trial in study.trials if trial.row == row]
    moved = [replace(trial, row=new) for trial in moving]
    return [study.trial_folder(trial) for trial in (*moving, *moved)]


def _stored_elsewhere(folders: Sequence[TrialFolder]) -> list[Problem]:
    """Problems with checkpoints outside of the study: their folders keep the old names."""
    allowed = "such checkpoints cannot move: keep the name"
    return [
        Problem("paths.checkpoints", f"is {address}, where folders have the trials' names", allowed)
        for address in checkpoint_places(folders)
    ]


def _send_names(study: Study, settings: "Settings") -> bool:
    """Give the runs in MLflow, if any, their new names. Returns False if `sync` has to do it."""
    from sweeps.planning.study_rows.todays_words import with_todays_words
    from sweeps.verbs.ui import send
    from tracking.mlflow.ledger import SYNC_FILE

    if not (study.folder / SYNC_FILE).exists():
        return True
    try:
        return send(with_todays_words(study, Path.cwd()), settings) == 0
    except RefusedError:  # such as an address whose password must be typed
        return False
