"""The values in the files of ``conf/``, layer by layer, before overrides: Hydra composes the shipped ones."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from sweeps.planning.base import composed
from sweeps.planning.plain_yaml import read_yaml
from sweeps.planning.row_selection import ALL
from sweeps.planning.settings import MAKERS
from sweeps.planning.yaml_content import ABOUT_ALL_GROUPS, BASE, groups_of
from sweeps.planning.yaml_files import FULL, PLATFORM_GROUPS, Library

Tree = dict[str, Any]
Value = TypeVar("Value")


class Layers:
    """Base with a row, and the scale on top of both. References are not resolved yet."""

    def __init__(self, library: Library, choices: dict[str, str]) -> None:
        self.library, self.choices = library, {**library.defaults, **choices}
        self.read: dict[Path, Tree] = {}

    def row_file(self, name: str) -> Tree:
        """The content of a row's file."""
        return self._file("row", name)

    def row(self, own: Tree) -> Tree:
        """Base and a row's content, at the paper's size."""
        return _merged(self._base, own)

    def scaled(self, row: Tree) -> Tree:
        """The scale's values on top of a row's."""
        return _merged(row, self._file("scale", self.choices["scale"]))

    def _file(self, group: str, name: str) -> Tree:
        if self.library.is_implied(group, name):
            return self._implied(group)
        path = self.library.path(group, name)
        if path not in self.read:
            content = read_yaml(path)
            known = groups_of(group, self.library.schema) if group in (*ABOUT_ALL_GROUPS, BASE) else content
            self.read[path] = {key: value for key, value in content.items() if key in known}
        return self.read[path]

    def _implied(self, group: str) -> Tree:
        """Base without a change, or the scale that divides nothing."""
        divisors = {role.by: 1 for role in self.library.schema.divided.values()}
        implied: dict[str, Tree] = {
            "row": {"row": {"group": BASE}},
            "scale": {"scale": {"name": FULL, **divisors}},
        }
        return implied[group]

    @cached_property
    def lists(self) -> Tree:
        """The lists of values in the sweep's file, of which rows are made, by dotted key."""
        sweep = self._files["sweep"]
        return {key: sweep[key.removeprefix("sweep.")] for key in MAKERS if sweep.get(key.removeprefix("sweep."))}

    @cached_property
    def _base(self) -> Tree:
        """The values before any row, without lists: their references belong to the rows that are made of them."""
        sweep = {key: value for key, value in self._files["sweep"].items() if f"sweep.{key}" not in MAKERS}
        if sweep.get("rows") == ALL:
            sweep["rows"] = list(dict.fromkeys([BASE, *self.library.options("row")]))
        return {**self._files, "sweep": sweep}

    @cached_property
    def _files(self) -> Tree:
        """Shipped options as Hydra composes them, and the user's own."""
        chosen = {group: name for group, name in self.choices.items() if group not in ABOUT_ALL_GROUPS}
        own = {group: name for group, name in chosen.items() if not self.library.is_shipped(group, name)}
        shipped = composed(tuple((group, name) for group, name in sorted(chosen.items()) if group not in own))
        values = {**shipped, **{group: self._own_group(group, name) for group, name in own.items()}}
        if self.library.at_root:
            return values
        return {**_platform(values), **self._file(BASE, BASE)}

    def _own_group(self, group: str, name: str) -> Tree:
        return self._file(group, name)


def _platform(values: Tree) -> Tree:
    """What all tasks share."""
    return {group: values[group] for group in (*PLATFORM_GROUPS, "paths")}


def copied(value: Value) -> Value:
    """A copy of plain data from a file: faster than ``copy.deepcopy``, which looks for cycles."""
    if isinstance(value, dict):
        return cast(Value, {key: copied(item) for key, item in value.items()})
    return cast(Value, [copied(item) for item in value]) if isinstance(value, list) else value


def assigned(tree: Tree, values: Mapping[str, Any]) -> Tree:
    """A copy with these dotted keys set, where their groups exist."""
    tree = copied(tree)
    for key, value in values.items():
        *groups, name = key.split(".")
        node: Any = tree
        for group in groups:
            node = node.get(group) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node[name] = value
    return tree


def _merged(below: Tree, above: Tree) -> Tree:
    """A copy with groups merged key by key, as Hydra merges them."""
    merged = copied(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else copied(value)
    return merged
