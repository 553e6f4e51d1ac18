"""``allelse rm``: whole studies move to the trash."""

from collections.abc import Sequence
from pathlib import Path

from sweeps.planning.stored_study import studies_there, study_names
from sweeps.removing.removal import Removal, locked, not_syncing, trials_below
from sweeps.removing.trash import free_place
from sweeps.schema import Problem, RefusedError, nearest


def removing(runs: Path, names: Sequence[str]) -> list[Removal]:
    """What the names or folders of studies remove. Raises RefusedError with every name that is no study's."""
    known = study_names(runs)
    meant = {name: _plain(runs, name) for name in names}
    problems = [_unknown(runs, name, known) for name, study in meant.items() if study not in known]
    if problems:
        raise RefusedError(problems)
    folders = [runs / study for study in dict.fromkeys(meant.values())]
    return [Removal(folder, (folder,), trials_below(folder)) for folder in folders]


def remove(removal: Removal) -> Path:
    """Move the study; returns its place in the trash. Raises RefusedError if one of its trials is running."""
    folder = removal.study
    with locked(removal.trials), not_syncing(folder):
        place = free_place(folder.parent, folder.name)
        place.parent.mkdir(exist_ok=True)
        folder.rename(place)
    return place


def _plain(runs: Path, name: str) -> str:
    """The study's name, also of a path such as `runs/multi30k-half/`, which a shell completes."""
    path = Path(name).absolute()
    return path.name if "/" in name and path.parent.resolve() == runs.resolve() else name


def _unknown(runs: Path, name: str, known: list[str]) -> Problem:
    return Problem("STUDY", f'is "{name}", but {runs} has no such study', studies_there(runs), nearest(name, known))
