"""The command that is probed: as typed, or that of a task by its name."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sweeps.command_task.command_task import CommandTask
from sweeps.command_task.draft import draft
from sweeps.command_task.lookup import command_task
from sweeps.command_task.template import KEYS, TRIAL_NAMES, Template, Value, filled, placeholders
from sweeps.command_task.values import key_values
from sweeps.problems import Problem, RefusedError

SEED = "1"


@dataclass(frozen=True)
class ProbedCommand:
    """Words without placeholders, and variables. ``task``: the task's name, if it was typed."""

    words: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    task: str = ""


def probed_command(typed: Sequence[str], here: Path, out: Path) -> ProbedCommand:
    """As ``init`` would make a task of it: a flag for the output folder gets ``out``."""
    task = command_task(typed[0], here) if len(typed) == 1 else None
    if task is not None:
        return replace(command_of_task(task, trial_values(out)), task=task.name)
    names = [name for word in typed for name in placeholders(word)]
    if names:
        _refuse_other(names)
        return ProbedCommand(Template(tuple(typed)).arguments(trial_values(out)))
    drafted = draft(typed, here)
    words = [filled(word, {}) for word in drafted.program]
    for part in drafted.drafted:
        value = re.split(r"[\s=]", part.typed)[-1]
        values = {"seed": value, "out": str(out), f"{KEYS}{part.key}": part.text}
        words += [filled(word, values) for word in part.words]
    return ProbedCommand(words, drafted.env)


def _refuse_other(names: Sequence[str]) -> None:
    """Raises RefusedError for a placeholder that only a task's file gives a value."""
    for name in names:
        if name not in TRIAL_NAMES:
            fault = f"holds {{{name}}}, which has no value here"
            raise RefusedError([Problem("COMMAND", fault, "type its value, or the task's name")])


def command_of_task(task: CommandTask, of_trial: Mapping[str, Value]) -> ProbedCommand:
    """The command with base's values."""
    definition = task.definition
    assert definition is not None
    values = {**key_values(definition, task.base), **of_trial}
    words = definition.template.arguments(values)
    env = {name: filled(text, values) for name, text in definition.env.items()}
    return ProbedCommand(words, env)


def with_steps(task: CommandTask, steps: int) -> CommandTask:
    """The task with another number of steps. Raises RefusedError if no key holds it."""
    definition = task.definition
    base: Any = task.base
    names = placeholders(str(definition.steps)) if definition is not None else []
    if not names:
        fault = "can't be set: steps: names no key"
        raise RefusedError([Problem("--steps", fault, 'write it as steps: "{args.KEY}"')])
    arguments = replace(base.args, **{names[0].removeprefix(KEYS): steps})
    return replace(task, base=replace(base, args=arguments))


def trial_values(out: Path, checkpoint: Path | None = None) -> dict[str, Value]:
    """What a command takes from its trial."""
    resume = None if checkpoint is None else str(checkpoint)
    return {"seed": SEED, "out": str(out), "resume": resume, "rank": "0", "world": "1"}
