"""What is wrong with the form of a user's YAML file, by its lines. Its values are checked once rows are composed."""

import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from sweeps.planning.plain_yaml import plain_data
from sweeps.planning.schema import Schema
from sweeps.schema import UNKNOWN_KEY, Problem, RefusedError, nearest

BASE = "base"
"""The file of a task's base values."""
ABOUT_ALL_GROUPS = ("row", "scale")
"""Groups whose files set keys of other groups. Without the header, Hydra would read those as the group's keys."""
HEADER = re.compile(r"\s*#\s*@package\s+(\S+)\s*$")
MISREAD = re.compile(r"[-+]?0[\d_]+$|.*:")
"""Numbers that YAML 1.1 reads as octal or as base 60."""
TAG = "tag:yaml.org,2002:"
PLAIN = "must hold groups of keys in UTF-8, without tags, << or anchors of groups"


def examined(path: Path, shown: str, group: str, schema: Schema, at_root: bool) -> list[Problem]:
    """The problems of the file ``path``, which messages call ``shown``. Raises RefusedError if it is not plain YAML.

    ``at_root``: it lies in ``conf/`` itself, from which Hydra composes."""
    prefix = "" if group in (*ABOUT_ALL_GROUPS, BASE) else group
    try:
        text = _text(path)
        root = _root(text)
        problems = [*_header_problems(text, group, path.stem, shown, at_root), *_misread(root, prefix, shown)]
        content = plain_data(text)
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        reason, line = _reason(error)
        place = f"{shown}:{line}" if line else shown
        raise RefusedError([Problem(path.stem, f"is not plain YAML: {reason}", PLAIN, None, place)]) from None
    return [*problems, *(_part_problems(root, content, group, path.stem, shown, schema) if not prefix else ())]


def groups_of(group: str, schema: Schema) -> tuple[str, ...]:
    """The groups of keys that the file of a row, of a scale or of base may set."""
    return schema.groups if group == BASE else (group, *schema.groups)


def line_of(node: yaml.Node | None, key: str) -> int | None:
    """The line, counted from 1, on which a mapping sets the dotted key, which it may write as ``a: {b: 1}``."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for name_node, value_node in node.value:
        if name_node.value == key:
            return int(name_node.start_mark.line) + 1
        inner = key.removeprefix(f"{name_node.value}.")
        if inner != key and (line := line_of(value_node, inner)):
            return line
    return None


def _text(path: Path) -> str:
    """The content, without a byte-order mark."""
    if not path.is_file():  # opening a pipe would wait for its writer
        raise OSError("there is no file that can be opened")
    return path.read_bytes().decode("utf-8-sig")


def _root(text: str) -> yaml.MappingNode:
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if getattr(event, "tag", None) or (isinstance(event, yaml.CollectionStartEvent) and event.anchor):
            raise _not_plain("found a tag or an anchor", event)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or not root.value:
        raise ValueError("it holds no keys")
    return root


def _not_plain(problem: str, part: Any) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=part.start_mark)


def _reason(error: Exception) -> tuple[str, int | None]:
    """Why a file cannot be read, and the line if it is known."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8", error.object.count(b"\n", 0, error.start) + 1
    if isinstance(error, RecursionError):
        return "it is nested too deeply", None
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "strerror", None) or str(error).splitlines()[0]
    return reason, mark.line + 1 if mark else None


def _header_problems(text: str, group: str, name: str, shown: str, at_root: bool) -> Iterator[Problem]:
    """The first comments may hold a license before the header."""
    head = takewhile(lambda line: not line.strip() or line.lstrip().startswith("#"), text.splitlines())
    given = [match[1] for line in head if (match := HEADER.match(line))]
    about_all = group in (*ABOUT_ALL_GROUPS, BASE)
    needed = ["_global_"] if about_all and (given or at_root) else []
    if given != needed:
        found = f'has "# @package {given[0]}"' if given else 'lacks "# @package _global_"'
        allowed = 'must begin with "# @package _global_"' if needed else "remove that line"
        yield Problem(name, found, allowed, None, f"{shown}:1")


def _misread(node: yaml.Node, key: str, shown: str) -> Iterator[Problem]:
    """Keys that are given twice, and numbers that YAML reads as others than they look like."""
    if isinstance(node, yaml.MappingNode):
        yield from _misread_keys(node, key, shown)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _misread(item, key, shown)
    elif _is_plain_number(node) and MISREAD.match(node.value):
        read, place = yaml.safe_load(node.value), f"{shown}:{node.start_mark.line + 1}"
        fix = f"write {read}, or put quotes around a text"
        yield Problem(key, f"is {node.value}, which YAML reads as {read}", fix, None, place)


def _is_plain_number(node: yaml.Node) -> bool:
    """Whether it is one without quotes."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.tag in (f"{TAG}int", f"{TAG}float")


def _misread_keys(mapping: yaml.MappingNode, key: str, shown: str) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for name, value in mapping.value:
        if name.tag != f"{TAG}str":
            raise _not_plain("found a key that is no word", name)
        inner, line = f"{key}.{name.value}" if key else name.value, name.start_mark.line + 1
        if name.value in first:
            found = f"is given twice, first in line {first[name.value]}"
            yield Problem(inner, found, "keep one of them", None, f"{shown}:{line}")
        first.setdefault(name.value, line)
        yield from _misread(value, inner, shown)


def _part_problems(
    root: yaml.Node, content: dict[str, Any], group: str, name: str, shown: str, schema: Schema
) -> Iterator[Problem]:
    """What the file of a row, of a scale or of base may not set."""
    groups, owner = groups_of(group, schema), group if group == BASE else f"a {group}"
    for key in content.keys() - set(groups):
        allowed = f"{owner} sets only {', '.join(groups)}"
        yield Problem(key, UNKNOWN_KEY, allowed, nearest(key, groups), f"{shown}:{line_of(root, key)}")
    if group in ABOUT_ALL_GROUPS and schema.seed and (line := line_of(root, schema.seed)):
        allowed = "set the seeds of all rows with sweep.seeds=[1,2,3]"
        yield Problem(schema.seed, f"is set by {owner}", allowed, None, f"{shown}:{line}")
    named = content["scale"].get("name", name) if group == "scale" and isinstance(content.get("scale"), dict) else name
    if named != name:
        found, allowed = f"is {named}, but the file is {name}.yaml", f"must be {name}: it names the study"
        yield Problem("scale.name", found, allowed, None, f"{shown}:{line_of(root, 'scale.name')}")
