"""What can be configured for the task of a command: groups with their options, keys, and the line that set a value."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from sweeps.config.files import BASE, CONFIG, Folders, examined, line_of, root_of
from sweeps.config.hydra import Hydra
from sweeps.config.schema import Schema
from sweeps.config.settings import known_keys, tree_type
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


def place_of(key: str, hydra: Hydra, *options: str) -> str | None:
    """file:line of the file whose value of the key counts in this composition; None if none sets it."""
    return next(_lines(key, hydra, options), None)


def place_of_missing(key: str, hydra: Hydra, *options: str) -> str | None:
    """Where a missing key should stand: the line of its group, or the start of the file that is about it."""
    group = key.partition(".")[0]
    files = _files(hydra, options)
    about = next((file for file, package in files if group in (package, file.parent.name)), None)
    file = about or hydra.folders.find(BASE) or hydra.folders.find(CONFIG)
    return next(_lines(group, hydra, options), None) or (f"{hydra.folders.show(file)}:1" if file else None)


def _lines(key: str, hydra: Hydra, options: tuple[str, ...]) -> Iterator[str]:
    for file, package in _files(hydra, options):
        inner = key.removeprefix(f"{package}.") if package else key
        line = line_of(root_of(file), inner) if inner != key or not package else None
        if line:
            yield f"{hydra.folders.show(file)}:{line}"


def _files(hydra: Hydra, options: tuple[str, ...]) -> list[tuple[Path, str]]:
    """The last one first; none if they cannot be composed."""
    try:
        return hydra.files(*options)[::-1]
    except RefusedError:
        return []
