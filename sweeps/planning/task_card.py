"""What ``study.json`` says of a task, so that a study is read without the task's code."""

from typing import Any

from sweeps.planning.schema import Schema
from sweeps.task import Task
from tracking.card import Card


def task_card(task: Task[Any]) -> Card:
    """The task's own card, or the one that follows from its schema."""
    if task.card is not None:
        return task.card
    schema = Schema.of(task)
    symbols = {schema.short(key): symbol for key, symbol in schema.symbols.items()}
    scoring = {key: key for key in sorted(schema.scores)}
    return Card(task.name, task.version, task.metrics, symbols, scoring=scoring, groups=schema.groups)
