"""What is wrong with a task as its file declares it."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import isgeneratorfunction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sweeps.planning.settings import PLATFORM
from sweeps.planning.task_card import task_card
from sweeps.task import Metric, Task
from sweeps.versions import field_types

TAKEN = (*PLATFORM, "task")
"""Groups of the files that are none of a task's."""
PLAIN = (int, float, str, bool, dict, NoneType)
KINDS = "must be int, float, str, bool, None, Literal, list[…] or dict"
ADVISING = ("problems", "cautions", "data_problems", "title")
FUNCTIONS = ("steps", "work", *ADVISING, "costs", "keep", "fingerprint", "resolved")
OPTIONAL = ("words", "prepare", "texts", "save", "load")


def task_faults(task: Task[Any]) -> list[str]:
    """Every fault, each as a clause."""
    found: list[str] = []
    if type(task.version) is not int or task.version < 1:
        found.append(f"its version {task.version!r} must be a whole number of at least 1")
    if isgeneratorfunction(task.work):
        found.append("its work yields, as in interface 1; now it calls trial.report, trial.checkpoint, trial.evaluated")
    if (task.save is None) != (task.load is None):
        found.append("it must have both save and load, or neither")
    if type(task.early_stop) is not bool:
        found.append(f"its early_stop {task.early_stop!r} must be True or False")
    if not isinstance(task.verbs, tuple) or not all(map(callable, task.verbs)):
        found.append("its verbs must be a tuple of functions, such as (predict,)")
    found += [f"its {name} must be a function" for name in FUNCTIONS if not callable(getattr(task, name))]
    found += [f"its {name} must be a function or None" for name in OPTIONAL if not _is_optional(getattr(task, name))]
    of_parts = [*_metric_faults(task.metrics), *_schema_faults(task.schema)]
    return [*found, *(of_parts or [fault for fault in task_card(task).faults() if "version" not in fault])]


def _is_optional(function: Any) -> bool:
    return function is None or callable(function)


def _metric_faults(metrics: Any) -> Iterator[str]:
    if not isinstance(metrics, tuple) or not all(isinstance(metric, Metric) for metric in metrics):
        yield "its metrics must be a tuple of Metric, such as (Metric('accuracy'),)"
        return
    names = Counter(metric.name for metric in metrics)
    yield from (f"{count} of its metrics have the name {name}" for name, count in names.items() if count > 1)


def _schema_faults(schema: Any) -> Iterator[str]:
    if not _is_frozen(schema):
        yield f"its schema {_called(schema)} must be a frozen dataclass of groups of keys"
        return
    hints = field_types(schema)
    for group in (field.name for field in fields(schema)):
        if group in TAKEN:
            yield f"its group {group} has a name that belongs to the platform"
        elif not _is_frozen(hints[group]):
            yield f"its group {group}, which is {_called(hints[group])}, must be a frozen dataclass of keys"
        else:
            yield from _key_faults(group, field_types(hints[group]))


def _key_faults(group: str, kinds: dict[str, Any]) -> Iterator[str]:
    for name, kind in kinds.items():
        if is_dataclass(kind):
            yield f"its group {group} must hold keys alone, not the group {name}"
        elif not _is_plain(kind):
            yield f"its key {group}.{name}, which is {_called(kind)}, {KINDS}"


def _is_plain(kind: Any) -> bool:
    """Whether a file can give such a value, and the schema can check it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _is_plain(inner[0])
    if origin in (Union, UnionType, list):
        return all(map(_is_plain, inner))
    return kind in PLAIN or origin in (Literal, dict)


def _is_frozen(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _called(kind: Any) -> str:
    return str(kind) if get_origin(kind) or not isinstance(kind, type) else kind.__name__
