"""The values in the files of ``conf/``, layer by layer, before overrides: Hydra composes the shipped ones."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml

from sweeps.planning.base import composed
from sweeps.planning.plain_yaml import read_yaml
from sweeps.planning.settings import Settings
from sweeps.planning.yaml_content import ABOUT_ALL_GROUPS
from sweeps.planning.yaml_files import Library
from transformer.schema import Problem
from transformer.versions import current_names

Tree = dict[str, Any]
Value = TypeVar("Value")


class LayerError(ValueError):
    """A file that cannot be read; carries the problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(str(problem))


class Layers:
    """Base with a row, and the scale on top of both. References are not resolved yet."""

    def __init__(self, library: Library, choices: dict[str, str]) -> None:
        self.library, self.choices = library, {**library.defaults, **choices}
        self.read: dict[Path, Tree] = {}

    def row(self, name: str, without: Iterable[str] = ()) -> Tree:
        """Base and this row, at the paper's size, with base's values for some keys. Raises LayerError."""
        own = copied(self._file("row", name))
        for group, _, key in (dotted.partition(".") for dotted in without):
            if isinstance(own.get(group), dict):
                own[group].pop(key, None)
        return _merged(self._base, own)

    def scaled(self, row: Tree) -> Tree:
        """The scale's values on top of a row's. Raises LayerError."""
        return _merged(row, self._file("scale", self.choices["scale"]))

    def _file(self, group: str, name: str) -> Tree:
        path = self.library.path(group, name)
        if path not in self.read:
            self.read[path] = self._read(path, f"{group} {name}")
        return self.read[path]

    def _read(self, path: Path, name: str) -> Tree:
        try:
            return current_names(Settings, read_yaml(path))
        except (yaml.YAMLError, ValueError, OSError) as error:
            found = f"cannot be read: {str(error).splitlines()[0]}"
            place = self.library.show(path)
            raise LayerError(Problem(name, found, "must hold groups of keys", None, place)) from error

    @cached_property
    def _base(self) -> Tree:
        """The values before any row: shipped options as Hydra composes them, and the user's own. Raises LayerError."""
        chosen = {group: name for group, name in self.choices.items() if group not in ABOUT_ALL_GROUPS}
        own = {group: name for group, name in chosen.items() if not self.library.is_shipped(group, name)}
        shipped = composed(tuple((group, name) for group, name in sorted(chosen.items()) if group not in own))
        return {**shipped, **{group: self._own_group(group, name) for group, name in own.items()}}

    def _own_group(self, group: str, name: str) -> Tree:
        values = current_names(Settings, {group: self._file(group, name)})[group]
        assert isinstance(values, dict)
        return values


def copied(value: Value) -> Value:
    """A copy of plain data from a file: faster than ``copy.deepcopy``, which looks for cycles."""
    if isinstance(value, dict):
        return cast(Value, {key: copied(item) for key, item in value.items()})
    return cast(Value, [copied(item) for item in value]) if isinstance(value, list) else value


def _merged(below: Tree, above: Tree) -> Tree:
    """A copy with groups merged key by key, as Hydra merges them."""
    merged = copied(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else copied(value)
    return merged
