"""Names on the command line: each stands for a trial, a checkpoint, an exported model or an MLflow run."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from sweeps.planning.moved import moved, moved_value
from sweeps.planning.same_data import check_data
from sweeps.planning.settings import Settings
from sweeps.planning.stored_study import damaged, studies_there
from sweeps.schema import Problem, RefusedError, nearest, parse
from sweeps.trained.request import Request, read_request
from tracking.card import Card
from tracking.damage import DamagedFileError, unless_damaged
from tracking.ledger import trial_of_run
from tracking.study import StudyMissing, read_study, task_of
from tracking.translation_card import TRANSLATION
from tracking.trial_folder import TrialFolder
from tracking.uri import without_password
from transformer.config import TrialConfig
from transformer.data.fingerprint import fingerprint, prepared_folder
from transformer.data.prepare import Prepared, open_prepared, prepare

TRIALS = "must be a trial, a trial's folder, or an MLflow run id"
KINDS = "must be a trial, the folder of a trial, checkpoint or exported model, or an MLflow run id"
SOME = 30  # names in a refusal, at most


@dataclass(frozen=True)
class SavedTrial:
    """A trial's folder and its training settings. ``data`` are the folders that may hold its prepared text."""

    path: Path
    config: TrialConfig
    key: str
    data_fingerprint: str
    checkpoints_url: str
    data: tuple[Path, ...]

    @property
    def folder(self) -> TrialFolder:
        return TrialFolder(self.path)

    @property
    def name(self) -> str:
        """Such as synthetic-tiny/base-s1."""
        return f"{self.path.parent.name}/{self.path.name}"

    def result(self) -> dict[str, Any]:
        """The result of the finished trial. Raises RefusedError if the trial is not finished."""
        result = self.folder.result()
        if result is None or result["key"] != self.key:
            raise RefusedError([_not_finished(self.path, self.folder.state(self.key))])
        return result

    def prepared(self) -> Prepared:
        """Its text and vocabulary, prepared again if they are gone. Raises RefusedError."""
        prepared = self._prepared()
        if problems := check_data(self.folder, prepared.vocabulary_sha256, prepared.folder):
            raise RefusedError(problems)
        return prepared

    def kept_texts(self, set_name: str) -> tuple[list[str], list[str]] | None:
        """Sources and references of a set; None if its prepared text is gone, or without such a set."""
        for data in self.data:
            folder = prepared_folder(data, self.data_fingerprint)
            prepared = open_prepared(folder, self.data_fingerprint) if folder.is_dir() else None
            if prepared and set_name in prepared.evaluation_sets:
                return prepared.sources(set_name), prepared.references(set_name)
        return None

    def _prepared(self) -> Prepared:
        for data in self.data:
            folder = prepared_folder(data, self.data_fingerprint)
            if folder.is_dir():
                return open_prepared(folder, self.data_fingerprint)
        if fingerprint(self.config.data) != self.data_fingerprint:
            found = f"{self.name} was trained on different text than the current {self.config.data.name}"
            allowed = f"must hold prepared/{self.data_fingerprint[:16]}, its vocabulary"
            raise RefusedError([Problem("paths.data", found, allowed)])
        return prepare(self.config.data, self.data[0], self.data_fingerprint)


def find(name: str, shared: Settings, allowed: str = KINDS) -> Path:
    """The folder that ``name`` stands for. Raises RefusedError with the allowed kinds and the nearest known name."""
    runs = Path(shared.paths.runs)
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser().resolve()
    known = {trial: shared.study_folder / trial for trial in _trials(shared.study_folder)}
    everywhere = {f"{study.name}/{trial}": study / trial for study in _studies(runs) for trial in _trials(study)}
    found = known.get(name) or everywhere.get(name)
    if found is None and re.fullmatch("[0-9a-f]{32}", name):
        found = trial_of_run(runs, name)
    if found is None:
        with suppress(StudyMissing):
            read_study(shared.study_folder)  # a damaged study hides its trials: this raises an error that names it
        raise RefusedError([_unknown(name, shared, list(known), list(everywhere), allowed)])
    return found


def read_trial(path: Path, shared: Settings, allowed: str = KINDS) -> SavedTrial:
    """The trial of this folder. Raises RefusedError or DamagedFileError."""
    folder = TrialFolder(path, _translation(path))
    if not folder.config_path.exists():
        state = folder.state()
        raise RefusedError(
            [_no_trial(path, allowed) if state == "missing" and path.is_dir() else _not_finished(path, state)]
        )
    stored = folder.trained_config() or {}
    config, problems = parse(TrialConfig, {group: stored.get(group) for group in ("model", "train", "decode", "data")})
    if config is None:
        raise RefusedError(replace(problem, place=str(folder.config_path)) for problem in problems)
    before, now = stored["paths"]["runs"], path.parent.parent
    data = (Path(shared.paths.data), Path(moved(stored["paths"]["data"], before, now)))
    mirror = _as_typed(config.data.mirror, getattr(getattr(shared.trial, "data", None), "mirror", None))
    files = {name: moved_value(getattr(config.data, name), before, now) for name in ("train", "dev", "test")}
    config = replace(config, data=replace(config.data, mirror=mirror, **files))
    checkpoints = folder.checkpoints_url(_elsewhere(stored["paths"], shared.paths.checkpoints, now))
    return SavedTrial(path, config, stored["key"], stored["data_fingerprint"], checkpoints, data)


def requested_trials(
    verb: str, arguments: list[str], average: int | None, set_name: str | None = None
) -> tuple[Request, list[SavedTrial]]:
    """What the arguments request, and the finished trials that they name. Raises RefusedError."""
    request = read_request(verb, arguments, average, set_name)
    return request, named_trials(request)


def named_trials(request: Request) -> list[SavedTrial]:
    """The named finished trials, each once. Raises RefusedError with all their problems."""
    trials: dict[Path, SavedTrial] = {}
    problems: list[Problem] = []
    for name in request.names:
        try:
            trial = read_trial(find(name, request.shared, TRIALS), request.shared, TRIALS)
            trial.result()
            trials[trial.path] = trial
        except RefusedError as error:
            problems += error.problems
        except DamagedFileError as error:
            problems.append(damaged(error))
    if problems:
        raise RefusedError(problems)
    return list(trials.values())


def _elsewhere(stored: dict[str, Any], typed: str | None, now: Path) -> str | None:
    """``paths.checkpoints`` of the trial. A folder may have been moved with the runs, or to where it is typed."""
    if stored["checkpoints"] is None:
        return None
    place = moved(stored["checkpoints"], stored["runs"], now)
    gone = "://" not in place and not Path(place).exists()
    return typed if gone and typed else _as_typed(place, typed)


def _translation(path: Path) -> Card:
    """The card of the trial's study. Raises RefusedError if its task is not translation."""
    task = unless_damaged(partial(task_of, path.parent), TRANSLATION)
    if task.name != TRANSLATION.name:
        allowed = "must be a translation; `ablate table` shows the results of other tasks"
        raise RefusedError([Problem("TRIAL", f"{path.name} is a trial of the task {task.name}", allowed)])
    return task


def _as_typed(stored: str | None, typed: str | None) -> str | None:
    """``typed``, which may hold a password, if ``stored`` is the same address without it; otherwise ``stored``."""
    return typed if stored and typed and without_password(typed) == stored else stored


def _studies(runs: Path) -> Iterator[Path]:
    return (path.parent for path in sorted(runs.glob("*/study.json")))


def _trials(study: Path) -> list[str]:
    try:
        return [trial.name for trial in read_study(study).trials]
    except (StudyMissing, ValueError):  # a damaged study hides only its own trials
        return []


def _unknown(name: str, shared: Settings, known: list[str], everywhere: list[str], allowed: str) -> Problem:
    study, near = shared.study_folder.name, nearest(name, [] if "/" in name else known) or nearest(name, everywhere)
    same_name = [other for other in everywhere if other.rsplit("/", 1)[-1] == name]
    if not known:
        there = studies_there(Path(shared.paths.runs))
        found = f'is "{name}", but {shared.paths.runs} holds no study {study}; {there}'
    else:
        more = f" and {len(known) - SOME} more" if len(known) > SOME else ""
        found = f'is "{name}", but the trials of {study} are {", ".join(known[:SOME])}{more}'
    return Problem("TRIAL", found, allowed, same_name[0] if same_name else near)


def _not_finished(path: Path, state: str) -> Problem:
    fault = {"missing": "was never started", "running": "is still running"}.get(state, f"is not finished, but {state}")
    allowed = "must be finished; `ablate status` shows where each trial stands, and `ablate sweep` resumes it"
    return Problem("TRIAL", f"{path.name} {fault}", allowed)


def _no_trial(path: Path, allowed: str) -> Problem:
    names = _trials(path)
    if names:
        return Problem("TRIAL", f"{path} is a study", f"must be one of its trials, such as {path / names[0]}")
    return Problem("TRIAL", f"{path} holds no trial", allowed)
