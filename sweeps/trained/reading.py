"""A trained trial from its folder, or from the folder of one of its checkpoints."""

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.planning.moved import moved, moved_value
from sweeps.schema import Problem, RefusedError, parse
from sweeps.task import Task
from sweeps.trained.names import KINDS, trials_of
from sweeps.trained.trained_trial import TrainedTrial, not_finished
from sweeps.worker.checkpoint_files import MANIFEST
from sweeps.worker.checkpoints import KEY_DIGITS
from tracking.card import Card
from tracking.damage import unless_damaged
from tracking.study import STUDY_FILE, task_of
from tracking.trial_folder import TrialFolder
from tracking.uri import without_password

OWN_FILES = ("config.yaml", "attempts.jsonl", MANIFEST, STUDY_FILE)


def is_of_study(path: Path) -> bool:
    """Whether this is the place of a trial, or the folder of a checkpoint or a study."""
    return (path.parent / STUDY_FILE).exists() or any((path / name).exists() for name in OWN_FILES)


def read_trained(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """The finished trial of this folder, or a trial as it was at this checkpoint.

    Raises RefusedError or DamagedFileError.
    """
    if (path / MANIFEST).is_file():
        return _at_checkpoint(path, source, settings)
    trial = _read(path, source, settings)
    trial.result()
    return trial


def _at_checkpoint(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    place = re.search(rf"/([0-9a-f]{{{KEY_DIGITS}}})/a(\d+)/step-(\d+)$", path.as_posix())
    if place is None:
        allowed = "must be the folder <key>/a<attempt>/step-<n> of a trial's checkpoints"
        raise RefusedError([Problem("TRIAL", f"{path} is not a checkpoint of a trial", allowed)])
    key, folder = place[1], path.parents[2]
    trial = _read(_owner(folder, settings), source, settings)
    if not trial.key.startswith(key):
        found = f"{path} belongs to trial {key}, but the key of {trial.name} is {trial.key[:KEY_DIGITS]}"
        raise RefusedError([Problem("TRIAL", found, "must lie in the folder of its own trial")])
    return replace(trial, checkpoints=str(folder), attempt=int(place[2]), step=int(place[3]))


def _owner(checkpoints: Path, settings: Settings) -> Path:
    """The folder of the trial that owns these checkpoints; ``paths.checkpoints`` may place them elsewhere."""
    if checkpoints.name == "checkpoints":
        return checkpoints.parent
    return Path(settings.paths.runs) / checkpoints.parent.name / checkpoints.name


def _read(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """A trial that has begun."""
    task, folder = source.task, TrialFolder(path, _card(path, source.task))
    stored = folder.trained_config()
    if stored is None:
        raise RefusedError([_no_trial(path, folder)])
    config, problems = parse(task.schema, {group: stored.get(group) for group in Schema.of(task).groups})
    if config is None:
        raise RefusedError(replace(problem, place=str(folder.config_path)) for problem in problems)
    before, now = stored["paths"]["runs"], path.parent.parent
    config = _with_places(config, task, settings, before, now)
    result = folder.result()
    step, attempt = (result["step"], result["attempt"]) if result and result["key"] == stored["key"] else (0, 0)
    return TrainedTrial(
        source=source,
        files=folder,
        own=config,
        config=config,
        key=stored["key"],
        fingerprint=stored["data_fingerprint"],
        step=step,
        ended=step,
        attempt=attempt,
        checkpoints=folder.checkpoints_url(_elsewhere(stored["paths"], settings.paths.checkpoints, now)),
        places=(Path(settings.paths.data), Path(moved(stored["paths"]["data"], before, now))),
        tracking_uri=settings.tracking.uri,
    )


def _card(path: Path, task: Task[Any]) -> Card:
    """That of the trial's study. Raises RefusedError if it is of another task."""
    known = (path.parent / STUDY_FILE).exists()
    card = (unless_damaged(partial(task_of, path.parent), None) if known else None) or task_card(task)
    if card.name != task.name:
        allowed = f"must be one of the task {task.name}; `allelse table` shows the results of any task"
        raise RefusedError([Problem("TRIAL", f"{path.name} is a trial of the task {card.name}", allowed)])
    return card


def _with_places(config: Any, task: Task[Any], settings: Settings, before: str, now: Path) -> Any:
    """The configuration with each place of its data where it is now. An address may get its password again."""
    same = settings.source.task.name == task.name
    for key, role in Schema.of(task).fingerprinted.items():
        if role.place:
            group, _, name = key.partition(".")
            values = getattr(config, group)
            typed = getattr(getattr(settings.trial, group), name) if same else None
            value = getattr(values, name)
            there = _as_typed(value, typed) if isinstance(value, str) else moved_value(value, before, now)
            config = replace(config, **{group: replace(values, **{name: there})})
    return config


def _elsewhere(stored: dict[str, Any], typed: str | None, now: Path) -> str | None:
    """``paths.checkpoints`` of the trial. A folder may have been moved with the runs, or to where it is typed."""
    if stored["checkpoints"] is None:
        return None
    place = moved(stored["checkpoints"], stored["runs"], now)
    gone = "://" not in place and not Path(place).exists()
    return typed if gone and typed else _as_typed(place, typed)


def _as_typed(stored: str, typed: str | None) -> str:
    """``typed``, which may hold a password, if ``stored`` is the same address without it; otherwise ``stored``."""
    return typed if typed and without_password(typed) == stored else stored


def _no_trial(path: Path, folder: TrialFolder) -> Problem:
    state, names = folder.state(), trials_of(path)
    if names:
        return Problem("TRIAL", f"{path} is a study", f"must be one of its trials, such as {path / names[0]}")
    if state == "missing" and path.is_dir():
        return Problem("TRIAL", f"{path} holds no trial", KINDS)
    return not_finished(path, state)
