"""What the names on a command line mean: a study, a row of it, or a trial."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sweeps.planning.naming import known_study, some_of
from sweeps.schema import Problem, nearest
from tracking.study import Study, Trial


@dataclass(frozen=True)
class Named:
    """What a name means: trials of one row, or a whole study, whose ``row`` is None."""

    name: str
    study: Study
    row: str | None
    trials: tuple[Trial, ...]


def meant(name: str, here: Study | None, runs: Path) -> Named | None:
    """A row or trial of the study ``here``; or STUDY, STUDY/ROW, STUDY/TRIAL, the folder of a study or of a trial.

    Raises RefusedError for a damaged study.
    """
    (study_name, _, inner), folder = name.rpartition("/"), Path(name).expanduser().resolve()
    if here and (found := part(here, name, name)):
        return found
    for place, of_study in ((runs / name, ""), (runs / study_name, inner), (folder, ""), (folder.parent, folder.name)):
        if study := known_study(place):
            found = part(study, of_study, name) if of_study else Named(name, study, None, study.trials)
            if found:
                return found
    return None


def part(study: Study, inner: str, name: str) -> Named | None:
    """The row or trial ``inner`` of the study."""
    trials = tuple(trial for trial in study.trials if inner in (trial.row, trial.name))
    return Named(name, study, trials[0].row, trials) if trials else None


def rows_of(study: Study) -> list[str]:
    """In the order of the table."""
    return list(dict.fromkeys(trial.row for trial in study.trials))


def unknown(key: str, name: str, study: Study, kinds: str, allowed: str, others: Iterable[str] = ()) -> Problem:
    """The refusal of a name that the study does not have. ``kinds``: "rows" or "trials", which it lists."""
    trials, inner = [trial.name for trial in study.trials], name.rpartition("/")[2]
    listed = rows_of(study) if kinds == "rows" else trials
    first_seed = next((trial for trial in trials if trial.startswith(f"{inner}-s")), None)
    near = first_seed or nearest(inner, dict.fromkeys([*listed, *trials, *others]))
    return Problem(key, f'is "{name}", but the {kinds} of {study.name} are {some_of(listed)}', allowed, near)
