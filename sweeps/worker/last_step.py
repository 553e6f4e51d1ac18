"""Trained weights that a work only scores: their checkpoints, and the step at which their training
ended."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from sweeps.checkpoints.folders import copy_work_files, work_folder
from sweeps.checkpoints.own_format import OwnFormat
from sweeps.checkpoints.reader import CheckpointReader, Restored
from sweeps.checkpoints.store import CheckpointStore
from sweeps.config.schema import Schema
from sweeps.problems import Problem, RefusedError
from sweeps.processes.events import Assignment, HostWeights
from sweeps.task import Keep, Numbers, Task


def config_until(task: Task[Any], config: Any, step: int) -> Any | None:
    """The configuration of a training that ends at this step; None if no key of the task sets its
    last step.

    Otherwise the work would train the steps that were left out.
    """
    planned = task.steps(config)
    if step in (0, planned):  # 0: it is unknown
        return config
    schema = Schema.of(task)
    for key, value in schema.values(config).items():
        if type(value) is int and schema.decides_weights(key) and value * step % planned == 0:
            ended = _with(config, key, value * step // planned)
            if task.steps(ended) == step:
                return ended
    return None


def _with(config: Any, key: str, value: int) -> Any:
    group, _, name = key.partition(".")
    return replace(config, **{group: replace(getattr(config, group), **{name: value})})


def scored_config(task: Task[Any], config: Any, assignment: Assignment) -> Any:
    """The configuration for the work: it ends at the last step of the trained weights, if there are
    any.

    Raises RefusedError if another trial's training ended early and no key can express that.
    """
    host = assignment.weights
    last = host.step if host else assignment.ended
    if last is None:
        return config
    ended = config_until(task, config, last)
    if ended is None and host is not None:
        raise RefusedError(
            [early_end_problem(assignment.trial, host.trial, last, task.steps(config))]
        )
    return ended or config


def known_scores(assignment: Assignment, attempt: int) -> dict[str, Numbers]:
    """The scores by set that the weights of this attempt already have."""
    heads = assignment.evaluated.items()
    return {name: head["scores"] for name, head in heads if head.get("attempt") == attempt}


def fault_of_training_on(host: str, step: int, last: int) -> str:
    """The fault of work that trains to ``step``, although it only scores the weights of ``host``
    after the ``last`` one."""
    trains = f"work continued to step {step}, but this trial only scores the weights of {host}"
    return f"{trains} after step {last}: train only while steps are left"


def planned_unless_reached(last: int, planned: int, early_stop: bool) -> int | None:
    """The planned steps if training ended before them, or if no step of several was ever reported
    or saved."""
    if last == 0:
        return planned if planned > 1 else None
    return planned if last < planned and not early_stop else None


def early_end_problem(trial: str, host: str, step: int, planned: int) -> Problem:
    """The refusal of ``trial``, since nothing could stop its work from training further."""
    ended = f"scores the weights of {host}, whose training ended at step {step} of {planned}"
    fault = f"{ended}; the task has no key for its number of steps, so its work would keep training"
    return Problem(trial, fault, "add such a key, or remove this row")


def missing_state_problem(
    trial: str, host: str, step: int, saved_steps: Collection[int]
) -> Problem:
    """The refusal of ``trial`` if the last state of its host was not saved.

    ``saved_steps``: the steps with a checkpoint.
    """
    steps = ", ".join(map(str, sorted(saved_steps))) or "there is none"
    fault = f"scores the weights of {host}, which has no checkpoint of its last step, {step}"
    return Problem(trial, fault, f"must be a step with a checkpoint: {steps}")


def own_folder(assignment: Assignment) -> Path:
    """The folder for the trial's own files."""
    return work_folder(assignment.checkpoints, assignment.key, assignment.lineage)


def open_checkpoints(
    task: Task[Any],
    config: Any,
    assignment: Assignment,
    tell: Callable[[str], None],
) -> CheckpointStore:
    """The trial's own checkpoints, or those of the trial whose weights it only scores. ``tell``
    takes notices."""
    trained = assignment.weights or assignment
    keep = Keep() if assignment.weights else task.keep(config)
    steps = sorted({*keep.steps, *assignment.kept_steps})
    reader = CheckpointReader(
        trained.checkpoints,
        trained.key,
        trained.lineage,
        trained.attempt,
        OwnFormat.of(task),
        tell,
    )
    return CheckpointStore(reader, replace(keep, steps=steps), assignment.code)


def take_weights(
    assignment: Assignment,
    host: HostWeights,
    restored: Restored | None,
    checkpoints: CheckpointReader,
) -> None:
    """Check that ``restored`` is the last state of the host, and copy the files of the host's work.

    Raises RefusedError if the host's last state is gone.
    """
    checkpoint = restored.start.checkpoint if restored else None
    if checkpoint is None or not host.are_in(checkpoint.attempt, checkpoint.step):
        saved_steps = checkpoints.steps()
        raise RefusedError(
            [missing_state_problem(assignment.trial, host.trial, host.step, saved_steps)]
        )
    source = work_folder(host.checkpoints, host.key, host.lineage)
    copy_work_files(source, own_folder(assignment))
