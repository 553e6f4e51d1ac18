"""The ``Task`` that a command is: its schema, its identity, and what is looked at before it
starts."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Union

from sweeps.command_task.data_files import digest_of
from sweeps.command_task.definition import SCALARS, Definition
from sweeps.command_task.programs import program_problems
from sweeps.command_task.template import KEYS, Value, filled, placeholders
from sweeps.command_task.trial.work import work
from sweeps.command_task.values import key_values, planned_steps
from sweeps.problems import Problem, nearest
from sweeps.task import Observes, Seed, Task

GROUP = "args"
SEED = "seed"
ENV = "env."


@dataclass(frozen=True, eq=False)
class CommandTask(Task[Any]):
    """A task that runs a command. Its ``definition`` is always there."""

    definition: Definition | None = None


def platform_values(task: Task[Any]) -> dict[str, Any]:
    """What a command sets besides keys of its task."""
    definition = task.definition if isinstance(task, CommandTask) else None
    if definition is None or definition.gpus is None:
        return {}
    return {"cluster": {"gpus_per_worker": definition.gpus}}


def planned_steps_of(task: Task[Any], config: Any) -> int | None:
    """The number of steps; None for a command that names none."""
    if isinstance(task, CommandTask) and task.definition and task.definition.steps is None:
        return None
    return task.steps(config)


def begins_again(task: Task[Any]) -> str:
    """Why a trial that was lost begins again; "" if it resumes."""
    definition = task.definition if isinstance(task, CommandTask) else None
    if definition is None or definition.checkpoint is not None:
        return ""
    return f"a lost trial begins again: {definition.file} has no checkpoint:"


def task_of(definition: Definition, here: Path) -> CommandTask:
    """The task. Paths of the file are relative to ``here``."""
    arguments = _arguments(definition)
    schema = make_dataclass("Config", [(GROUP, arguments)], frozen=True)
    return CommandTask(
        name=definition.name,
        version=definition.version,
        schema=schema,
        metrics=tuple(written.metric for written in definition.metrics),
        steps=partial(_steps, definition),
        work=partial(work, definition),
        base=schema(arguments()),
        problems=partial(_problems, definition, here),
        cautions=lambda config, data: _cautions(definition),
        data_problems=lambda config, data: _absences(definition, here, config),
        fingerprint=partial(_fingerprint, definition, here),
        watched={},
        definition=definition,
    )


def _arguments(definition: Definition) -> type[Any]:
    """A dataclass with base's values. Null is allowed for each key: it leaves the argument out."""
    observed = {name.removeprefix(KEYS) for name in definition.observes}
    fields: list[tuple[str, Any, Any]] = []
    for name, value in definition.args.items():
        kind = _kind(value)
        hint = Annotated[kind, Observes()] if name in observed else kind
        default = partial(_copy, value)
        fields.append((name, hint, field(default_factory=default)))
    fields.append((SEED, Annotated[int, Seed()], field(default=1)))
    return make_dataclass("Arguments", fields, frozen=True)


def _copy(value: Any) -> Any:
    return list(value) if isinstance(value, list) else value


def _kind(value: Any) -> Any:
    if value is None:
        return Union[(*SCALARS, NoneType)]
    kind = list[type(value[0])] if isinstance(value, list) else type(value)  # type: ignore[misc]
    return kind | None


def _steps(definition: Definition, config: Any) -> int:
    """Of the file, or of the key that it names; one step if it names none."""
    steps = planned_steps(definition, config)
    return steps if type(steps) is int and steps >= 1 else 1


def _problems(definition: Definition, here: Path, config: Any) -> Iterator[Problem]:
    steps = planned_steps(definition, config)
    if steps is not None and (type(steps) is not int or steps < 1):
        fault = f"gives {steps!r} steps"
        yield Problem("steps", fault, "must be at least 1", place=definition.place("steps"))
    yield from _absences(definition, here, config)


def _cautions(definition: Definition) -> Iterator[str]:
    if SEED not in definition.template.names and f"{{{SEED}}}" not in definition.env.values():
        yield (
            f"{definition.place('command')} passes no {{seed}}, "
            "so seeds differ only by what the command draws itself"
        )


def _fingerprint(definition: Definition, here: Path, config: Any) -> str:
    """A hash of the command, its deciding variables and the content of its data."""
    observed = {f"{KEYS}{name.removeprefix(KEYS)}" for name in definition.observes}
    names = {f"{KEYS}{name}" for name in definition.args}
    deciding: dict[str, Value] = {}
    for name in [*definition.template.names, *names]:
        deciding[name] = None if name in observed else f"{{{name}}}"
    env = {
        name: text
        for name, text in definition.env.items()
        if f"{ENV}{name}" not in definition.observes
    }
    data = {path: digest_of(here / path) for path in _data(definition, config)}
    content = {"command": definition.template.arguments(deciding), "env": env, "data": data}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _data(definition: Definition, config: Any) -> list[str]:
    """The paths of the data of this configuration."""
    values: Mapping[str, Value] = key_values(definition, config)
    return [
        filled(path, {**dict.fromkeys(placeholders(path)), **values}) for path in definition.data
    ]


def _absences(definition: Definition, here: Path, config: Any) -> Iterator[Problem]:
    """The problems of the program, its script and the data that are not there: here, or on a
    node."""
    yield from program_problems(definition, here)
    for path in _data(definition, config):
        if not (here / path).exists():
            folder = (here / path).parent
            names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
            similar = nearest(Path(path).name, names)
            fault = f"names {path}, which is not there"
            allowed = f"must be files or folders, relative to {here}"
            suggestion = similar and str(Path(path).parent / similar)
            yield Problem("data", fault, allowed, suggestion, definition.place("data"))
