"""What can be configured for the task of a command: groups with their options, and the keys of the schema."""

from functools import cached_property
from pathlib import Path

from sweeps.config.files import examined
from sweeps.config.folders import BASE, Folders
from sweeps.config.hydra import Hydra
from sweeps.config.schema import Schema
from sweeps.config.settings import tree_type
from sweeps.config.suggest import known_keys
from sweeps.config.tasks import TaskSource
from sweeps.task import Problem, RefusedError, Task

FIXED = ("scale", "cluster", "tracking", "sweep")
"""Groups whose option is the same for all rows."""


class Library:
    """The configuration of a task for a command in the folder ``here``."""

    def __init__(self, source: TaskSource, here: Path) -> None:
        self.source, self.folders = source, Folders(here, source)
        self.hydra = Hydra(self.folders)
        self.base_problems: list[Problem] = []

    @property
    def task(self) -> Task[object]:
        return self.source.task

    @property
    def schema(self) -> Schema:
        return Schema.of(self.task)

    @property
    def tree(self) -> type:
        """The form of all settings, for their keys and types."""
        return tree_type(self.task)

    @property
    def keys(self) -> tuple[str, ...]:
        return known_keys(self.tree)

    @property
    def row_keys(self) -> list[str]:
        """The keys that a row may change, in the order of the schema."""
        return [key for key in self.keys if key.split(".")[0] in self.schema.groups]

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group. Raises RefusedError if the task has no base."""
        if self.folders.find(BASE) is None and self.folders.place != Path():
            raise RefusedError([self._no_base()])
        if (base := self.folders.find(BASE)) is not None:
            self.base_problems = examined(base, self.folders.show(base), "", self.schema)
        return self.hydra.compose().choices

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.defaults)

    def _no_base(self) -> Problem:
        """The refusal of a task without base values."""
        groups = ", ".join(self.schema.groups)
        file = self.folders.written_to(BASE)
        if misplaced := self.folders.misplaced("", BASE):
            return Problem(BASE, f"is missing, but there is {self.folders.show(misplaced)}", f"rename it to {file}")
        return Problem(BASE, f"is missing: there is no {file}", f"create it with the keys of {groups}")
