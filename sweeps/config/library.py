"""A task's configuration for a command: its keys, its defaults, and the lines that set values."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sweeps.config.files import BASE, Folders, file_problems, lines_of
from sweeps.config.hydra.composer import Composer
from sweeps.config.hydra.typed_override import TypedOverride, parsed
from sweeps.config.key_hints import KeyHints
from sweeps.config.schema import Schema
from sweeps.config.settings import tree_type
from sweeps.config.tasks import TaskSource
from sweeps.fields import keys
from sweeps.function_task import GROUP
from sweeps.problems import Problem, RefusedError
from sweeps.task import Task


class Library:
    """The configuration of a task for a command in the folder ``here``.

    ``keys`` has the type of each dotted key. ``composer`` composes the files in ``folders``.
    """

    def __init__(self, source: TaskSource, here: Path) -> None:
        self.source = source
        self.folders = Folders(here, source)
        self.composer = Composer(self.folders)
        self.schema = Schema.of(source.task)
        self.keys = keys(tree_type(source.task))
        self.hints = KeyHints(self.schema, self.keys)

    @property
    def task(self) -> Task[Any]:
        return self.source.task

    @property
    def row_keys(self) -> list[str]:
        """The keys that a row may change, in the order of the schema."""
        return [key for key in self.keys if key.split(".")[0] in self.schema.groups]

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group. Raises RefusedError if the task has no base."""
        base = self.folders.find(BASE)
        if base is not None:
            file_problems(base, self.folders.show(base), "", self.schema)
        elif self.task.base is None and self.folders.task_path != Path():
            raise RefusedError(self._missing_base())
        return self.composer.choices()

    def _missing_base(self) -> list[Problem]:
        """The problem of a task without a base: its file ends in .yml, or there is none."""
        misnamed = self.folders.misnamed("")
        bases = [problem for problem in misnamed if Path(problem.key).stem == BASE]
        if bases:
            return bases
        fault = f"is missing: there is no {self.folders.written_to(BASE)}"
        allowed = f"create it with the keys of {', '.join(self.schema.groups)}"
        return [Problem(BASE, fault, allowed)]

    @property
    def groups(self) -> tuple[str, ...]:
        return tuple(self.defaults)

    def typed(self, text: str) -> TypedOverride | None:
        """One override of the command line, with the key that it means; None if Hydra cannot read
        it."""
        override = parsed(text, self.folders)
        if override is None or not override.key:
            return None
        return replace(override, key=self.key_of(override.key))

    def key_of(self, name: str) -> str:
        """The key that ``name`` means: ``args.width`` for ``width``, if the task is a function."""
        key = f"{GROUP}.{name}"
        return key if key in self.keys and name not in self.keys else name

    def place_of(self, key: str, *options: str) -> str | None:
        """file:line that sets the key in this composition, or its group; None if no file does."""
        files = self._last_first(options)
        for file, package in files:
            line = _line_of(key, file, package)
            if line is not None:
                return f"{self.folders.show(file)}:{line}"
        group = key.rpartition(".")[0]
        if not group:
            return None
        for file, package in files:
            if package == group:
                return f"{self.folders.show(file)}:1"
        return self.place_of(group, *options)

    def _last_first(self, options: tuple[str, ...]) -> list[tuple[Path, str]]:
        """The composed files, the last one first; none if they cannot be composed."""
        try:
            return self.composer.files(*options)[::-1]
        except RefusedError:
            return []


def _line_of(key: str, file: Path, package: str) -> int | None:
    """The line that sets the key in a file whose keys are below ``package``; None if none does."""
    prefix = f"{package}." if package else ""
    if not key.startswith(prefix):
        return None
    return lines_of(file).get(key.removeprefix(prefix))
