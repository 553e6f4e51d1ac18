"""``rename`` gives a row or a study another name, on disk and in MLflow."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from sweeps.console import OUT, next_verb
from sweeps.planning.studies.advice import studies_there
from sweeps.planning.studies.known_studies import known_study, study_names
from sweeps.planning.studies.renaming import rename_row, rename_study, row_problems, study_problems
from sweeps.planning.studies.study_overrides import PLACES, by_name, chosen
from sweeps.planning.studies.trial_lock import trial_lock
from sweeps.problems import Problem, RefusedError, nearest
from sweeps.verbs.command import guarded, names_and_overrides
from sweeps.verbs.remove import checkpoint_places, held, trials_below, unsynced
from tracking.study import Study
from tracking.trial import TrialFolder

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="STUDY [ROW] NEW [KEY=VALUE …]", help="The study, its row if that is renamed."
    ),
]
SHAPE = "type `allelse rename STUDY NEW`, or `allelse rename STUDY ROW NEW`"


@guarded
def rename(arguments: Names) -> None:
    """Give a study, or a row of it, another name: its folders, its record and its runs in
    MLflow."""
    from sweeps.planning.studies.named_study import (
        settings_to_read,  # imports Hydra, which `--help` does not need
    )

    names, overrides = names_and_overrides(arguments)
    if len(names) not in (2, 3):
        raise RefusedError([Problem("NEW", f"is missing: {len(names)} names are given", SHAPE)])
    settings = settings_to_read(overrides)
    study = _study(names[0], Path(settings.paths.runs))
    typed = ["allelse", "rename", *arguments]
    row = names[1] if len(names) == 3 else None
    renamed = _renamed(study, row, names[-1], typed)
    OUT.print(f"Renamed {escape(row or study.name)} to {escape(names[-1])}", soft_wrap=True)
    settings = replace(settings, sweep=replace(settings.sweep, name=renamed.name))
    words = [by_name(renamed.folder), *chosen(overrides, PLACES)]
    return next_verb("table" if _sent(renamed, settings) else "sync", words)


def _study(name: str, runs: Path) -> Study:
    study = known_study(runs / name) if name in study_names(runs) else None
    if study is None:
        found = f'is "{name}", but {runs} has no such study'
        near = nearest(name, study_names(runs))
        raise RefusedError([Problem("STUDY", found, studies_there(runs), near)])
    return study


def _renamed(study: Study, row: str | None, new: str, typed: Sequence[str]) -> Study:
    """Under the locks of all its trials. Raises RefusedError."""
    folders = _folders(study, row, new)
    problems = [*(study_problems(study, new) if row is None else row_problems(study, row, new))]
    problems += _stored_elsewhere(folders)
    if problems:
        raise RefusedError(problems)
    with held([unsynced(study.folder), *map(trial_lock, folders)]):
        if row is None:
            return rename_study(study.folder, new, typed)
        return rename_row(study.folder, row, new, typed)


def _folders(study: Study, row: str | None, new: str) -> list[TrialFolder]:
    """Those that move, also under their new names."""
    if row is None:
        return trials_below(study.folder)
    moving = [trial for trial in study.trials if trial.row == row]
    there = [replace(trial, row=new) for trial in moving]
    return [study.trial_folder(trial) for trial in (*moving, *there)]


def _stored_elsewhere(folders: Sequence[TrialFolder]) -> list[Problem]:
    """Checkpoints outside of the study lie below its name and the trial's."""
    allowed = "such checkpoints cannot move: keep the name"
    return [
        Problem("paths.checkpoints", f"is {place}, where trials lie by their names", allowed)
        for place in checkpoint_places(folders)
    ]


def _sent(study: Study, settings: "Settings") -> bool:
    """Give the runs in MLflow their new names; False if that is left to `sync`. Without runs there
    is nothing to do."""
    from sweeps.planning.study_rows.todays_words import with_todays_words
    from sweeps.verbs.ui import send
    from tracking.mlflow.ledger import SYNC_FILE

    if not (study.folder / SYNC_FILE).exists():
        return True
    try:
        return send(with_todays_words(study, Path.cwd()), settings) == 0
    except RefusedError:  # such as an address whose password must be typed
        return False
