"""What the names on a command line mean: a study, a row of it, or a trial."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sweeps.planning.naming import known_study, some_of
from sweeps.schema import Problem, RefusedError, nearest
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


@dataclass
class Checked:
    """Collects the problems of names, each with the names that are allowed."""

    problems: list[Problem] = field(default_factory=list)

    def known(self, key: str, names: Iterable[str], allowed: Sequence[str], what: str) -> list[str]:
        """The names that exist, each once."""
        kept = list(dict.fromkeys(names))
        for name in [name for name in kept if name not in allowed]:
            found, near = f'names "{name}", which is not a {what}', nearest(name, allowed)
            self.problems.append(Problem(key, found, _one_of(allowed), near))
        return [name for name in kept if name in allowed]

    def listed(self, key: str, text: str, allowed: Sequence[str], what: str) -> list[str]:
        """The same for a list, which must not be empty."""
        if not (names := listed(text)):
            self.problems.append(Problem(key, "is empty", _one_of(allowed)))
        return self.known(key, names, allowed, what)

    def refuse(self) -> None:
        """Raises RefusedError if there is a problem."""
        if self.problems:
            raise RefusedError(self.problems)


def given(name: str | None) -> list[str]:
    """The value of an option, if it was typed."""
    return [] if name is None else [name]


def listed(text: str | None) -> list[str]:
    """Names separated by commas, also in brackets."""
    return [name for part in (text or "").strip("[] ").split(",") if (name := part.strip())]


def _one_of(names: Sequence[str]) -> str:
    return f"must be one of {', '.join(names)}"
