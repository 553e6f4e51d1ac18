"""A fault of one key in one line of a YAML file, and the nodes in which it is found."""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

BASE = "base"
"""The file of a task's base values."""
Pairs = Mapping[str, tuple[yaml.Node, yaml.Node]]
"""The groups of a file: the node of the name and that of the content."""


@dataclass(frozen=True)
class FormFault:
    """A fault of one key in one line. ``follows`` are keys whose problems follow from it."""

    key: str
    found: str
    allowed: str
    line: int
    nearest: str | None = None
    follows: tuple[str, ...] = ()


def line_of(part: yaml.Node | yaml.Event) -> int:
    """Counted from 1."""
    assert part.start_mark is not None
    return int(part.start_mark.line) + 1


def names(node: yaml.Node) -> list[str]:
    """The keys of a mapping; other nodes have none."""
    return [str(key.value) for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
