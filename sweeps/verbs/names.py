"""What the names on the command line mean: studies, rows, trials, their folders, and options."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.config.tasks import DEFAULT_TASK
from sweeps.planning.studies.advice import must_finish, some_of, studies_there
from sweeps.planning.studies.known_studies import known_study
from sweeps.problems import Problem, RefusedError, Typo, nearest
from tracking.card import Card
from tracking.study import Study, StudyTrial, studies

if TYPE_CHECKING:
    from sweeps.config.settings import Settings

TRIAL_KINDS = "must be a trial, the folder of a trial or checkpoint, or an MLflow run id"
RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class NamedTrials:
    """What a name means: trials of one row, or a whole study, whose ``row`` is None."""

    name: str
    study: Study
    row: str | None
    trials: tuple[StudyTrial, ...]

    def of_row(self, row: str) -> list[StudyTrial]:
        return [trial for trial in self.trials if trial.row == row]

    def states(self) -> list[str]:
        return [standing.state for standing in self.study.standings(self.trials)]


def trials_named(name: str, study: Study | None, runs: Path) -> NamedTrials | None:
    """The trials that the name means: a row or trial of the study; STUDY, STUDY/ROW, STUDY/TRIAL;
    or the folder of a study or trial.

    Raises RefusedError for a damaged study.
    """
    if study is not None:
        trials = trials_of(study, name, name)
        if trials is not None:
            return trials
    for folder, inner_name in _possible_folders(name, runs):
        recorded = known_study(folder)
        if recorded is None:
            continue
        if not inner_name:
            return NamedTrials(name, recorded, None, recorded.trials)
        trials = trials_of(recorded, inner_name, name)
        if trials is not None:
            return trials
    return None


def _possible_folders(name: str, runs: Path) -> Iterator[tuple[Path, str]]:
    """Folders that may be the study's, each with the row or trial in it; "" for the whole study."""
    study_name, _, inner_name = name.rpartition("/")
    folder = Path(name).expanduser().resolve()
    yield runs / name, ""
    yield runs / study_name, inner_name
    yield folder, ""
    yield folder.parent, folder.name


def trials_of(study: Study, inner_name: str, name: str) -> NamedTrials | None:
    """The study's row or trial of this name. ``name`` is the full name, as you typed it."""
    trials = tuple(trial for trial in study.trials if inner_name in (trial.row, trial.name))
    return NamedTrials(name, study, trials[0].row, trials) if trials else None


def rows_of(study: Study) -> list[str]:
    """The study's rows, in the order of the table."""
    return list(dict.fromkeys(trial.row for trial in study.trials))


def named_folder(name: str, settings: "Settings") -> Path:
    """The folder of this name, or of the trial that it means.

    Raises RefusedError with the nearest name.
    """
    from tracking.mlflow.ledger import trial_of_run

    if Path(name).expanduser().is_dir():
        return Path(name).expanduser().resolve()
    runs = Path(settings.paths.runs)
    match = _trials_in_settings(name, settings)
    if match is not None and match.row and len(match.trials) == 1:
        return match.study.trial_folder(match.trials[0]).path
    folder = trial_of_run(runs, name) if RUN_ID.fullmatch(name) else None
    if folder is None:
        raise RefusedError([_unknown_trial(name, settings)])
    return folder


def named_folders(name: str, settings: "Settings") -> list[Path]:
    """The folders of the trials that the name means: all of a row. Raises RefusedError as
    ``named_folder`` does."""
    match = None
    if not Path(name).expanduser().is_dir():
        match = _trials_in_settings(name, settings)
    if match is not None and match.row and len(match.trials) > 1:
        return [match.study.trial_folder(trial).path for trial in match.trials]
    return [named_folder(name, settings)]


def _trials_in_settings(name: str, settings: "Settings") -> NamedTrials | None:
    return trials_named(name, _study_in_settings(name, settings), Path(settings.paths.runs))


def _study_in_settings(name: str, settings: "Settings") -> Study | None:
    """The study whose rows and trials a name without / may mean."""
    return None if "/" in name else known_study(settings.study_folder)


def _unknown_trial(name: str, settings: "Settings") -> Problem:
    """The refusal of a name that means no trial."""
    runs = Path(settings.paths.runs)
    study = _study_in_settings(name, settings)
    recorded_studies, _ = studies(runs)
    full_names = [
        f"{recorded.name}/{trial.name}"
        for recorded in recorded_studies
        for trial in recorded.trials
    ]
    if study is not None:
        return unknown_name("TRIAL", name, study, "trials", TRIAL_KINDS, full_names)
    missing = "such trial" if "/" in name else f"study {settings.study_folder.name}"
    fault = f'is "{name}", but {runs} has no {missing}; {studies_there(runs)}'
    same_name = (full_name for full_name in full_names if full_name.endswith(f"/{name}"))
    suggestion = next(same_name, nearest(name, full_names))
    return Problem("TRIAL", fault, TRIAL_KINDS, suggestion)


def unknown_name(
    key: str, name: str, study: Study, kinds: str, allowed: str, more_names: Iterable[str] = ()
) -> Problem:
    """The refusal of a name that the study does not have.

    ``kinds``: "rows" or "trials", which it lists.
    """
    trials = [trial.name for trial in study.trials]
    rows = rows_of(study)
    names = rows if kinds == "rows" else trials
    inner_name = name.rpartition("/")[2]
    suggestion = next((trial for trial in trials if trial.startswith(f"{inner_name}-s")), None)
    if suggestion is None:
        suggestion = nearest(inner_name, dict.fromkeys([*names, *trials, *more_names]))
    fault = f'is "{name}", but the {kinds} of {study.name} are {some_of(names)}'
    return Problem(key, fault, allowed, suggestion)


def unfinished(key: str, name: str, states: Iterable[str], study: Path) -> Problem:
    """The refusal of trials without a result: their states, and what to type."""
    words = sorted({"not trained yet" if state == "missing" else state for state in states})
    return Problem(key, f"{name} is {' and '.join(words)}", must_finish(study))


@dataclass
class NameCheck:
    """Checks names that you typed, and collects a problem for each that does not exist."""

    problems: list[Problem] = field(default_factory=list)

    def existing(
        self, key: str, names: Iterable[str], allowed: Sequence[str], noun: str, hint: str = ""
    ) -> list[str]:
        """The names that exist, each once. ``hint`` ends the refusal of the others."""
        unique_names = list(dict.fromkeys(names))
        for name in unique_names:
            if name not in allowed:
                fault = f'names "{name}", which is not a {noun}'
                problem = Problem(key, fault, _one_of(allowed) + hint, Typo(name, tuple(allowed)))
                self.problems.append(problem)
        return [name for name in unique_names if name in allowed]

    def existing_or_none(
        self, key: str, name: str | None, allowed: Sequence[str], noun: str, hint: str = ""
    ) -> str | None:
        """The value of an option; None if you did not type it, or if it does not exist."""
        if name is None or not self.existing(key, [name], allowed, noun, hint):
            return None
        return name

    def scored_set(self, name: str | None, card: Card, measured: Iterable[str]) -> str | None:
        """The set of ``--set`` if it has scores, or will have; the refusal says how to score it."""
        measured_sets = list(measured)
        hint = "; a trial scores its sets when its training ends"
        if measured_sets and card.name == DEFAULT_TASK:
            hint = f"; `allelse evaluate TRIAL --set {name}` scores another set"
        allowed = measured_sets or card.scored_sets
        return self.existing_or_none("--set", name, allowed, "set with scores", hint)

    def existing_in_list(self, key: str, text: str, allowed: Sequence[str], noun: str) -> list[str]:
        """The names of a list that exist. The list must not be empty."""
        names = split_names(text)
        if not names:
            self.problems.append(Problem(key, "is empty", _one_of(allowed)))
        return self.existing(key, names, allowed, noun)

    def refuse(self) -> None:
        """Raises RefusedError if there is a problem."""
        if self.problems:
            raise RefusedError(self.problems)


def split_names(text: str | None) -> list[str]:
    """Names separated by commas, with or without brackets around them."""
    names = (text or "").strip("[] ").split(",")
    return [name.strip() for name in names if name.strip()]


def _one_of(names: Sequence[str]) -> str:
    return f"must be one of {', '.join(names)}"
