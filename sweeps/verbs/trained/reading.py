"""Read a trained trial from disk: from its folder, or from one of its checkpoints."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from sweeps.checkpoints.folders import KEY_DIGITS, root_name
from sweeps.checkpoints.manifest import MANIFEST
from sweeps.config.schema import Schema, task_card
from sweeps.config.settings import Settings
from sweeps.config.tasks import TaskSource
from sweeps.fields import parse
from sweeps.planning.study_rows.study_record import moved, moved_value
from sweeps.problems import COMMAND_LINE, Problem, RefusedError, refusal
from sweeps.task import Task, Typed
from sweeps.trees import assigned
from sweeps.verbs.names import TRIAL_KINDS, unfinished
from sweeps.verbs.texts import data_of_trial
from sweeps.verbs.trained.stored_weights import StoredWeights, stored_weights, study_lineage
from sweeps.verbs.trained.trained_trial import TrainedTrial
from tracking.attempts import Lineage
from tracking.card import Card
from tracking.files import unless_damaged
from tracking.observed.record import is_observed
from tracking.study import STUDY_FILE, read_study, task_of
from tracking.trial import TrialFolder
from tracking.uri import without_password
from tracking.weights import weights_record

STUDY_FILES = ("config.yaml", "attempts.jsonl", MANIFEST, STUDY_FILE)
"""Files in the folder of a trial, a checkpoint or a study."""
CHECKPOINT = re.compile(rf"/([0-9a-f]{{{KEY_DIGITS}}}(?:-\w+)?)/a(\d+)/step-(\d+)$")
"""The end of a checkpoint's path: <key>-<lineage>/a<attempt>/step-<n>."""


def is_of_study(path: Path) -> bool:
    """Whether this is where a trial lies, or the folder of a checkpoint or a study."""
    in_study = (path.parent / STUDY_FILE).exists()
    return in_study or any((path / name).exists() for name in STUDY_FILES)


def read_trained(path: Path, source: TaskSource, settings: Settings, typed: Typed) -> TrainedTrial:
    """The finished trial of this folder, or the trial as it was at this checkpoint, with the typed
    settings.

    Raises RefusedError or DamagedFileError.
    """
    if (path / MANIFEST).is_file():
        trial = _read_checkpoint(path, source, settings)
    else:
        trial = _read_trial(path, source, settings)
        trial.result()
        _refuse_without_weights(trial.weights)
    if not typed:
        return trial
    try:
        tree = assigned(asdict(trial.trained_config), typed)
        return trial.configured(Schema.of(source.task).config(tree))
    except RefusedError as error:
        problems = [replace(problem, place=COMMAND_LINE) for problem in error.problems]
        raise RefusedError(problems) from None


def _refuse_without_weights(weights: StoredWeights) -> None:
    """Raises RefusedError if the trial whose weights are scored is no longer finished."""
    if not weights.record:
        host = weights.files.path
        state = weights.files.state(weights.key)
        raise RefusedError([unfinished("TRIAL", host.name, [state], host.parent)])


def _read_checkpoint(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """The trial as it was at this checkpoint. Raises RefusedError."""
    match = CHECKPOINT.search(path.as_posix())
    if match is None:
        allowed = "must be the folder <key>-<lineage>/a<attempt>/step-<n> of a trial's checkpoints"
        raise refusal("TRIAL", f"{path} is not a checkpoint of a trial", allowed)
    root = match[1]
    attempt = int(match[2])
    step = int(match[3])
    checkpoints = path.parents[2]
    trial = _read_trial(_trial_folder(checkpoints, settings), source, settings)
    lineage = study_lineage(trial.files)
    trial_root = root_name(trial.key, lineage.name if lineage else "")
    if root != trial_root:
        fault = f"{path} belongs to trial {root}, but {trial.name} is {trial_root}"
        raise refusal("TRIAL", fault, "must be inside its trial's folder")
    record = weights_record(lineage or Lineage(), attempt, step)
    weights = replace(trial.weights, checkpoints=str(checkpoints), attempt=attempt, record=record)
    return replace(trial, weights=weights, attempt=attempt, step=step)


def _trial_folder(checkpoints: Path, settings: Settings) -> Path:
    """The folder of the trial with these checkpoints, which may lie elsewhere."""
    if checkpoints.name == "checkpoints":
        return checkpoints.parent
    return Path(settings.paths.runs) / checkpoints.parent.name / checkpoints.name


def _read_trial(path: Path, source: TaskSource, settings: Settings) -> TrainedTrial:
    """A trial that has begun. Raises RefusedError."""
    task = source.task
    folder = TrialFolder(path, _card(path, task))
    stored = folder.config()
    if stored is None:
        raise RefusedError([_no_trial(folder)])
    runs = path.parent.parent
    config = _with_places(_trained_config(folder, stored, task), task, settings, stored, runs)
    result = folder.result()
    if result is None or result["key"] != stored["key"]:
        result = {}
    checkpoints = _checkpoints_place(stored["paths"], settings.paths.checkpoints, runs)
    weights = stored_weights(folder, stored, checkpoints)
    step = weights.record.get("step", result.get("step", 0))
    return TrainedTrial(
        source=source,
        files=folder,
        trained_config=config,
        config=config,
        key=stored["key"],
        step=step,
        ended=step,
        attempt=result.get("attempt", 0),
        weights=weights,
        task_data=data_of_trial(task, stored, Path(settings.paths.data), folder),
        tracking_uri=settings.tracking.uri,
    )


def _trained_config(folder: TrialFolder, stored: Mapping[str, Any], task: Task[Any]) -> Any:
    """The configuration of ``config.yaml``. Raises RefusedError if the schema does not allow it."""
    tree = {group: stored.get(group) for group in Schema.of(task).groups}
    config, problems = parse(task.schema, tree)
    if config is None:
        path = str(folder.config_path)
        raise RefusedError(replace(problem, place=path) for problem in problems)
    return config


def _card(path: Path, task: Task[Any]) -> Card:
    """The card of the trial's study. Today's task says which sets have no files. Raises
    RefusedError for a trial of another task."""
    current = task_card(task)
    card = None
    if (path.parent / STUDY_FILE).exists():
        card = unless_damaged(partial(task_of, path.parent), None)
    card = card or current
    if card.name != task.name:
        if is_observed(path.parent):
            fault = f"{path.name} is a trial of {path.parent.name}, which was imported"
            allowed = "must have weights; `allelse table` shows the scores of imported runs"
            raise refusal("TRIAL", fault, allowed)
        fault = f"{path.name} is a trial of the task {card.name}"
        hint = "`allelse table` shows the results of any task"
        raise refusal("TRIAL", fault, f"{_of_task(path.parent, card)}; {hint}")
    return replace(card, sets_without_artifacts=current.sets_without_artifacts)


def _of_task(study: Path, card: Card) -> str:
    """What to add to a command on a trial of the study, such as "add task=mine"."""
    record = unless_damaged(partial(read_study, study), None)
    options = record.chosen.get("options", {}) if record else {}
    return f"add task={options.get('task', card.name)}"


def _with_places(
    config: Any, task: Task[Any], settings: Settings, stored: Mapping[str, Any], runs: Path
) -> Any:
    """The configuration with the places of its data as they are now.

    An address may get its password back.
    """
    schema = Schema.of(task)
    recorded = schema.values(config)
    typed = schema.values(settings.config)  # those of another task lack these keys
    places: dict[str, Any] = {}
    for key, role in schema.fingerprinted.items():
        if role.place:
            address = moved_value(recorded[key], stored["paths"]["runs"], runs)
            places[key] = _with_password(address, typed.get(key))
    return schema.config(assigned(asdict(config), places))


def _checkpoints_place(stored: dict[str, Any], typed: str | None, runs: Path) -> str | None:
    """``paths.checkpoints`` of the trial.

    The folder may have moved with the runs, or to the typed place.
    """
    recorded = stored.get("checkpoints")
    if recorded is None:
        return None
    address = moved(recorded, stored["runs"], runs)
    is_gone = "://" not in address and not Path(address).exists()
    return typed if is_gone and typed else str(_with_password(address, typed))


def _with_password(stored: Any, typed: Any) -> Any:
    """``typed`` if it is the address ``stored`` with a password; otherwise ``stored``."""
    return typed if isinstance(typed, str) and without_password(typed) == stored else stored


def _no_trial(folder: TrialFolder) -> Problem:
    """The refusal of a folder without config.yaml."""
    path = folder.path
    state = folder.state()
    if (path / STUDY_FILE).exists():
        example = path / read_study(path).trials[0].name
        return Problem(
            "TRIAL", f"{path} is a study", f"must be one of its trials, such as {example}"
        )
    if state == "missing" and path.is_dir():
        return Problem("TRIAL", f"{path} has no trial", TRIAL_KINDS)
    return unfinished("TRIAL", path.name, [state], path.parent)
