"""The recorded study that a command names."""

from pathlib import Path

from sweeps.planning.settings import Settings
from sweeps.planning.stored_study import known_study, studies_there, study_names
from tracking.study import Study
from transformer.schema import Problem, RefusedError, nearest


def named_study(settings: Settings) -> Study:
    """The study of these settings. Raises RefusedError with the nearest name if it is not recorded."""
    folder, runs = settings.study_folder, Path(settings.paths.runs)
    study = known_study(folder)
    if study is None:
        near = nearest(folder.name, study_names(runs))
        found = f'is "{folder.name}", but {runs} has no such study'
        raise RefusedError([Problem("sweep.name", found, studies_there(runs), near and f"sweep.name={near}")])
    return study
