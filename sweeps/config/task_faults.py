"""Faults in the declaration of a task: its version, functions, metrics and schema."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import isgeneratorfunction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sweeps.config.schema import PLATFORM, task_card
from sweeps.fields import field_types
from sweeps.problems import Problem
from sweeps.task import Costs, Keep, Metric, Task

RESERVED_GROUPS = (*PLATFORM, "task")
"""Groups that a task may not have: they belong to the platform."""
PLAIN_TYPES = (int, float, str, bool, dict, NoneType)
KEY_TYPES = "must be int, float, str, bool, None, Literal, list[…] or dict"
Fits = Callable[[Any], bool]
OUTSIDE_PACKAGES = (
    "filelock",
    "fsspec",
    "hydra",
    "jinja2",
    "matplotlib",
    "mlflow",
    "numpy",
    "omegaconf",
    "pandas",
    "plotext",
    "pooch",
    "psutil",
    "ray",
    "rich",
    "sacrebleu",
    "sacremoses",
    "safetensors",
    "scipy",
    "sentencepiece",
    "sqlalchemy",
    "torch",
    "typer",
    "yaml",
)
"""Packages of other projects that the platform imports in these processes."""


def _are_problems(values: Any) -> bool:
    return all(isinstance(item, Problem) for item in values)


RESULTS: dict[str, tuple[str, Fits]] = {
    "steps": ("a whole number of at least 1", lambda value: type(value) is int and value >= 1),
    "costs": ("Costs", lambda value: isinstance(value, Costs)),
    "fingerprint": ("text", lambda value: isinstance(value, str)),
    "title": ("text or None", lambda value: value is None or isinstance(value, str)),
    "words": ("text", lambda value: isinstance(value, str)),
    "keep": ("Keep", lambda value: isinstance(value, Keep)),
    "texts": ("texts by what each is called", lambda value: isinstance(value, Mapping)),
    "problems": ("a list, each Problem", _are_problems),
    "data_problems": ("a list, each Problem", _are_problems),
    "cautions": ("a list, each str", lambda values: all(isinstance(item, str) for item in values)),
    "precision": ("text", lambda value: isinstance(value, str)),
    "memory": ("a number or None", lambda value: value is None or type(value) in (int, float)),
    "prepare": ("", lambda value: True),
    "resolved": (
        "the task's configuration",
        lambda value: True,
    ),  # `checked_functions` knows its type
}
"""The functions of a task whose results are checked at each call: what each must return."""
LISTING = ("problems", "data_problems", "cautions")
"""The functions among them that may also yield."""


def task_faults(task: Task[Any]) -> list[str]:
    """Every fault of the task, each as a clause such as "its verbs must be a tuple of
    functions"."""
    faults: list[str] = []
    if type(task.version) is not int or task.version < 1:
        faults.append(f"its version {task.version!r} must be a whole number of at least 1")
    if isgeneratorfunction(task.work):
        calls = "trial.report, trial.checkpoint, trial.evaluated"
        faults.append(f"its work yields, as in interface 1; now it calls {calls}")
    if (task.save is None) != (task.load is None):
        faults.append("it must have both save and load, or neither")
    if type(task.early_stop) is not bool:
        faults.append(f"its early_stop {task.early_stop!r} must be True or False")
    if not isinstance(task.verbs, tuple) or not all(map(callable, task.verbs)):
        faults.append("its verbs must be a tuple of functions, such as (predict,)")
    faults += _function_faults(task)
    part_faults = [*_metric_faults(task.metrics), *_schema_faults(task.schema)]
    if not part_faults:  # a card needs metrics and a schema
        part_faults = [fault for fault in task_card(task).faults() if "version" not in fault]
    return [*faults, *part_faults]


def _function_faults(task: Task[Any]) -> Iterator[str]:
    optional = {field.name for field in fields(Task) if field.default is None}
    for name in sorted({*RESULTS, "work", "save", "load"}):
        function = getattr(task, name)
        is_omitted = function is None and name in optional
        if not is_omitted and not callable(function):
            yield f"its {name} must be a function"


def _metric_faults(metrics: Any) -> Iterator[str]:
    if not isinstance(metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        yield "its metrics must be a tuple of Metric, such as (Metric('accuracy'),)"
        return
    names = Counter(metric.name for metric in metrics)
    for name, count in names.items():
        if count > 1:
            yield f"{count} of its metrics have the name {name}"


def _schema_faults(schema: Any) -> Iterator[str]:
    if not _is_frozen(schema):
        yield f"its schema {type_name(schema)} must be a frozen dataclass of groups of keys"
        return
    hints = field_types(schema)
    for field in fields(schema):
        group = field.name
        if group in RESERVED_GROUPS:
            yield f"its group {group} has a name that belongs to the platform"
        elif not _is_frozen(hints[group]):
            group_type = type_name(hints[group])
            yield f"its group {group}, which is {group_type}, must be a frozen dataclass of keys"
        else:
            yield from _key_faults(group, field_types(hints[group]))


def _key_faults(group: str, hints: dict[str, Any]) -> Iterator[str]:
    for name, hint in hints.items():
        if is_dataclass(hint):
            yield f"its group {group} must hold only keys, not the group {name}"
        elif not _is_plain(hint):
            yield f"its key {group}.{name}, which is {type_name(hint)}, {KEY_TYPES}"


def _is_plain(hint: Any) -> bool:
    """Whether a file can hold a value of this type, and the schema can check it."""
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin is Annotated:
        return _is_plain(arguments[0])
    if origin in (Union, UnionType, list):
        return all(map(_is_plain, arguments))
    return hint in PLAIN_TYPES or origin in (Literal, dict)


def _is_frozen(hint: Any) -> bool:
    """Whether it is a frozen dataclass."""
    if not isinstance(hint, type) or not is_dataclass(hint):
        return False
    return bool(hint.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def type_name(hint: Any) -> str:
    """The name of a type for messages: of a class its name, otherwise as Python shows it."""
    return hint.__name__ if isinstance(hint, type) and not get_origin(hint) else str(hint)
