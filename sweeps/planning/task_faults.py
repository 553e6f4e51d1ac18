"""What is wrong with a task as its file declares it."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from sweeps.planning.schema import FIRST_TASK
from sweeps.planning.settings import PLATFORM
from sweeps.planning.task_card import task_card
from sweeps.task import Task
from transformer.versions import field_types


def task_faults(task: Task[Any], ours: bool) -> Iterator[str]:
    """Every fault, each as a sentence about the task. ``ours``: only our own task may be called translation."""
    if task.name == FIRST_TASK and not ours:
        yield f"has the name {FIRST_TASK}, which is taken"
    if (task.work is None) == (task.worker is None):
        yield "must have either work or worker"
    schema = list(_schema_faults(task.schema))
    yield from schema or task_card(task).faults()


def _schema_faults(schema: Any) -> Iterator[str]:
    if not _is_frozen(schema):
        yield f"has the schema {_called(schema)}, which must be a frozen dataclass of groups of keys"
        return
    hints = field_types(schema)
    for group in (field.name for field in fields(schema)):
        if group in PLATFORM:
            yield f"has a group {group} in its schema, which belongs to the platform"
        elif not _is_frozen(hints[group]):
            yield f"has {_called(hints[group])} as the group {group}, which must be a frozen dataclass of keys"
        elif nested := [name for name, kind in field_types(hints[group]).items() if is_dataclass(kind)]:
            yield f"has the group {nested[0]} inside the group {group}; groups hold keys alone"


def _is_frozen(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind) and bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _called(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))
