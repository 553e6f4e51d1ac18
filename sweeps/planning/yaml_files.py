"""The YAML files of ``conf/``: the shipped ones and the user's in ``./conf``, and the line that sets a key."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

import sweeps
from sweeps.planning.load_task import DEFAULT_TASK
from sweeps.planning.schema import Schema
from sweeps.planning.settings import tree_type
from sweeps.planning.task_source import TaskSource
from sweeps.planning.yaml_content import ABOUT_ALL_GROUPS, BASE, examined, line_of
from sweeps.schema import nearest
from sweeps.task import Problem, RefusedError, Task

PLATFORM_GROUPS = ("cluster", "tracking", "sweep")
"""Groups of options that all tasks share."""
FULL = "full"
"""The scale that every task has: it divides nothing."""


def shipped_folder(package: Path) -> Path:
    """The shipped ``conf/``: inside the package in a wheel, next to it in a checkout, also an editable one."""
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


SHIPPED = shipped_folder(Path(sweeps.__file__).resolve().parent)


@cache
def shipped_defaults() -> dict[str, str]:
    """The default option of each group that ``conf/config.yaml`` names."""
    listed = yaml.safe_load((SHIPPED / "config.yaml").read_text("utf-8"))["defaults"]
    return {group: name for entry in listed if isinstance(entry, dict) for group, name in entry.items()}


@dataclass(frozen=True)
class Library:
    """Every configuration file that can be named from ``here`` for a task. Files that nobody names are not opened.

    The default task's files lie in ``conf/`` itself. Base, rows and scales of another task lie in ``conf/task/NAME/``.
    """

    here: Path
    source: TaskSource

    @property
    def task(self) -> Task[Any]:
        return self.source.task

    @property
    def schema(self) -> Schema:
        return Schema.of(self.task)

    @property
    def tree(self) -> type:
        """The form of all settings, for their keys and types."""
        return tree_type(self.task)

    @property
    def row_groups(self) -> tuple[str, ...]:
        """The groups of keys that a row may change."""
        return self.schema.groups

    @property
    def override_example(self) -> str:
        """How a key is set."""
        key = next(iter(self.schema.short_names))
        return "train.steps=100" if "train.steps" in self.schema.short_names else f"{key}=VALUE"

    @property
    def list_example(self) -> str:
        """How rows are made of lists of values."""
        key = next(iter(self.schema.short_names))
        return f"{{{key}: [VALUE, VALUE]}}"

    @cached_property
    def own(self) -> Path | None:
        """The user's ``./conf``; None if it is missing or is the shipped folder."""
        folder = Path(os.path.realpath(self.here / "conf"))
        return folder if folder.is_dir() and folder != SHIPPED else None

    @property
    def at_root(self) -> bool:
        """Whether the task's files lie in ``conf/`` itself, with groups of options of its own."""
        return self.task.name == DEFAULT_TASK

    @cached_property
    def groups(self) -> list[str]:
        """The groups that have options."""
        if self.at_root:
            return sorted(path.name for path in SHIPPED.iterdir() if any(path.glob("*.yaml")))
        return sorted([*PLATFORM_GROUPS, *ABOUT_ALL_GROUPS])

    @cached_property
    def defaults(self) -> dict[str, str]:
        """The default option of each group."""
        shipped = shipped_defaults()
        if self.at_root:
            return shipped
        return {group: shipped[group] for group in PLATFORM_GROUPS} | {"sweep": "all", "row": "base", "scale": FULL}

    def folder(self, group: str) -> str:
        """The group's folder below a ``conf``."""
        own = group in (*ABOUT_ALL_GROUPS, BASE) and not self.at_root
        name = "" if group == BASE else group
        return f"task/{self.task.name}/{name}".rstrip("/") if own else group

    def options(self, group: str) -> list[str]:
        """The names that ``group=`` takes."""
        return self._options[group]

    @cached_property
    def _options(self) -> dict[str, list[str]]:
        return {group: sorted({*self._implied(group), *self._files(group)}) for group in self.groups}

    def _files(self, group: str) -> Iterator[str]:
        for conf in (SHIPPED, self.own):
            yield from (path.stem for path in _yaml_files(conf / self.folder(group)) if path.is_file()) if conf else ()

    def _implied(self, group: str) -> tuple[str, ...]:
        """Options that need no file: base without a change, and the scale that divides nothing."""
        return () if self.at_root else {"row": ("base",), "scale": (FULL,)}.get(group, ())

    def is_implied(self, group: str, name: str) -> bool:
        """Whether the option has no file and needs none."""
        return name in self._implied(group) and not self.path(group, name).is_file()

    def unknown_option(self, group: str, name: str, place: str | None) -> Problem | None:
        """The refusal of a name for which no file exists. A file that cannot be read is no unknown option."""
        options = self.options(group)
        if name in options or self._own_file(group, name) is not None:
            return None
        misplaced = self._misplaced(group, name)
        if misplaced is not None:
            found = f'is "{name}", but its file is {self.show(misplaced)}'
            return Problem(group, found, f"move or rename it to conf/{self.folder(group)}/{name}.yaml", None, place)
        allowed = f"must be one of {', '.join(options)}"
        found = f'is "{name}", but conf/{self.folder(group)}/ has no such file'
        return Problem(group, found, allowed, nearest(name, options), place)

    def examined(self, group: str, name: str) -> list[Problem]:
        """The problems of the user's file of this option. Raises RefusedError if it has no content."""
        path, shipped = self._own_file(group, name), SHIPPED / self.folder(group) / f"{name}.yaml"
        if group == BASE and path is None and not shipped.exists():
            raise RefusedError([self._no_base()])
        if path is not None and not shipped.exists():
            return examined(path, self.show(path), group, self.schema, self.at_root)
        if path is None or not _differs(path, shipped):
            return []
        allowed = "rename it, or make it identical to the shipped file"
        return [Problem(f"{group}/{name}.yaml", "shadows a shipped file", allowed, None, self.show(path))]

    def _no_base(self) -> Problem:
        """The refusal of a task without base values."""
        file, misplaced = f"conf/{self.folder(BASE)}/{BASE}.yaml", self._misplaced(BASE, BASE)
        if misplaced is not None:
            return Problem(BASE, f"is missing, but there is {self.show(misplaced)}", f"move or rename it to {file}")
        groups = ", ".join(self.schema.groups)
        return Problem(BASE, f"is missing: there is no {file}", f"create it with the keys of {groups}")

    @property
    def ignored(self) -> str | None:
        """The user's ``conf/config.yaml``, which nothing reads: it may belong to another program."""
        path = self.own / "config.yaml" if self.own else None
        return self.show(path) if path and path.is_file() and _differs(path, SHIPPED / "config.yaml") else None

    def is_shipped(self, group: str, name: str) -> bool:
        return (SHIPPED / self.folder(group) / f"{name}.yaml").exists()

    def path(self, group: str, name: str) -> Path:
        """The file of an option. The shipped one comes first."""
        shipped = SHIPPED / self.folder(group) / f"{name}.yaml"
        return shipped if shipped.exists() or self.own is None else self.own / self.folder(group) / f"{name}.yaml"

    def show(self, path: Path) -> str:
        """A path in the form that the user can open: relative to ``here`` if it lies inside."""
        return str(path.relative_to(self.here)) if path.is_relative_to(self.here) else str(path)

    def locate(self, key: str, choices: dict[str, str]) -> str | None:
        """file:line of the first file that sets the key: the row's, the scale's, config.yaml, the other groups'."""
        there = [group for group, name in choices.items() if name in self.options(group)]  # a row's may be gone
        last = [group for group in ABOUT_ALL_GROUPS if group in there]
        others = sorted(group for group in there if group not in last)
        files = [
            *((self.path(group, choices[group]), "") for group in last),
            *([] if self.at_root else [(self.path(BASE, BASE), "")]),
            (SHIPPED / "config.yaml", ""),
            *((self.path(group, choices[group]), group) for group in others),
        ]
        for path, package in files:
            if not path.is_file():
                continue
            inner = key.removeprefix(f"{package}.") if package else key
            line = line_of(yaml.compose(path.read_text("utf-8")), inner) if inner != key or not package else None
            if line:
                return f"{self.show(path)}:{line}"
        return None

    def missing_in(self, key: str, choices: dict[str, str]) -> str:
        """Where a missing key should stand: the line of its group, or the file of its option or of base."""
        group = key.partition(".")[0]
        base = SHIPPED / "config.yaml" if self.at_root else self.path(BASE, BASE)
        path = self.path(group, choices[group]) if group in choices else base
        return f"{self.show(path)}:{line_of(yaml.compose(path.read_text('utf-8')), group) or 1}"

    def first_line(self, group: str, name: str, keys: list[str]) -> str:
        """The line of an option's file that sets the first of these keys, or its first line."""
        file = self.show(self.path(group, name))
        line = self.locate(keys[0], {group: name}) if keys else None
        return line if line and line.startswith(file) else f"{file}:1"

    def _own_file(self, group: str, name: str) -> Path | None:
        """The user's file of this option, whatever it is: also a folder, a pipe or a link to nowhere."""
        path = self.own / self.folder(group) / f"{name}.yaml" if self.own else None
        return path if path and os.path.lexists(path) else None

    def _misplaced(self, group: str, name: str) -> Path | None:
        """A file that was probably meant for this option: x.yml, X.YAML, or a row outside the task's folder."""
        wanted = {f"{name}{ending}".casefold() for ending in (".yaml", ".yml")}
        folders = dict.fromkeys(self.here / "conf" / folder for folder in (self.folder(group), group))
        files = (path for folder in folders for path in _entries(folder))
        return next((path for path in files if path.name.casefold() in wanted), None)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _yaml_files(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.suffix == ".yaml"]


def _differs(path: Path, shipped: Path) -> bool:
    return not path.is_file() or path.read_bytes() != shipped.read_bytes()
