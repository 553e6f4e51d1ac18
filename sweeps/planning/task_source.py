"""A task, and how it was named."""

from dataclasses import dataclass
from typing import Any

from sweeps.task import Task


@dataclass(frozen=True)
class TaskSource:
    """How a task is named, and the folder from which it was imported."""

    name: str
    folder: str
    task: Task[Any]
