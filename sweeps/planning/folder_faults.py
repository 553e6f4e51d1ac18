"""Folders of planned trials that hold something else."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sweeps.command_task.command_task import CommandTask
from sweeps.planning.planned_trial import PlannedTrial
from sweeps.planning.studies.advice import other_study
from sweeps.problems import Problem, damaged
from sweeps.trees import Tree, dotted
from tracking.files import DamagedFileError, unless_damaged

NO_IDENTITY = "no other file identifies the trial; move the folder away"


def folder_faults(trials: Iterable[PlannedTrial]) -> Iterator[Problem]:
    """A problem for each folder that holds another trial, or whose trial cannot be read."""
    for planned in trials:
        folder = planned.folder
        if unless_damaged(folder.key, None) == planned.trial.key:
            continue
        try:
            stored = folder.config()
        except DamagedFileError as error:
            if not planned.is_recorded:
                yield replace(damaged(error), allowed=NO_IDENTITY)
            continue
        if stored is not None and not _is_same_trial(stored, planned):
            yield _problem(stored, planned)


def _is_same_trial(stored: Tree, planned: PlannedTrial) -> bool:
    """Whether the keys are equal, or both only score the weights of one trial: a trial may score
    these again with other settings."""
    if stored["key"] == planned.trial.key:
        return True
    return planned.host is not None and stored.get("weights_key") == planned.host.trial.key


def _problem(stored: Tree, planned: PlannedTrial) -> Problem:
    """Why the folder's trial is not the planned one."""
    name = planned.name
    version = _older_version(stored, planned)
    if version:
        task = planned.task
        fault = f"names a study whose {name} was trained with version {version} of {task.name}"
        fault += f"; version {task.version} trains different weights with the same settings"
        allowed = "finish it with the commit in its provenance.json, or choose another sweep.name"
    else:
        differences = _differences(stored, planned) or [_fingerprinted(planned)]
        fault = f"names a study whose {name} has different settings: {'; '.join(differences)}"
        allowed = other_study(planned.folder.path.parent)
    return Problem("sweep.name", fault, allowed, place=str(planned.folder.path))


def _fingerprinted(planned: PlannedTrial) -> str:
    """What decides the weights, and is not among the settings."""
    if isinstance(planned.task, CommandTask):
        return "its command, variables or data files"
    return "the text of its data"


def _differences(stored: Tree, planned: PlannedTrial) -> list[str]:
    """The differences between the folder's trial and the plan, such as "train.steps 600, now
    700"."""
    schema = planned.schema
    groups = {group: stored[group] for group in schema.groups if group in stored}
    stored_values = schema.neutral | dotted(groups)
    return [
        f"{key} {stored_values.get(key)}, now {value}"
        for key, value in schema.values(planned.config).items()
        if stored_values.get(key) != value and schema.decides_weights(key)
    ]


def _older_version(stored: Tree, planned: PlannedTrial) -> int | None:
    """The version of the task with which the folder's trial was trained, if only that differs."""
    schema = planned.schema
    for version in range(planned.task.version - 1, 0, -1):
        key = schema.trial_key(planned.config, planned.trial.seed, planned.fingerprint, version)
        if key == stored["key"]:
            return version
    return None
