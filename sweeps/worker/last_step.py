"""The step at which trained weights ended, as a work sees it that only scores them."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from sweeps.config.schema import Schema
from sweeps.schema import Problem, RefusedError
from sweeps.task import Task
from sweeps.worker.events import Assignment


def config_until(task: Task[Any], config: Any, step: int) -> Any | None:
    """The configuration of a training that ends at this step; None if no key of the task says when it ends.

    Work that ended early would otherwise train the steps that it left out.
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


def scored_config(task: Task[Any], config: Any, given: Assignment) -> Any:
    """The configuration as the work sees it: its last step is that of the trained weights, if there are any.

    Raises RefusedError if those of another trial ended early, and no key says so.
    """
    host = given.weights
    last = host.step if host else given.ended
    if last is None:
        return config
    ended = config_until(task, config, last)
    if ended is None and host is not None:
        raise RefusedError([ended_early(given.trial, host.trial, last, task.steps(config))])
    return ended or config


def ended_early(trial: str, host: str, step: int, planned: int) -> Problem:
    """The refusal of ``trial``, whose work could not be kept from training further."""
    ended = f"scores the weights of {host}, whose training ended at step {step} of {planned}"
    found = f"{ended}; no key of the task is its number of steps, so its work would train on"
    return Problem(trial, found, "add such a key, or leave this row out")


def without_last_state(trial: str, host: str, step: int, there: Collection[int]) -> Problem:
    """The refusal of ``trial``, if the last state of its host was not saved. ``there``: the steps with a checkpoint."""
    steps = ", ".join(map(str, sorted(there))) or "there is none"
    found = f"scores the weights of {host}, which has no checkpoint of its last step, {step}"
    return Problem(trial, found, f"must be a step with a checkpoint: {steps}")
