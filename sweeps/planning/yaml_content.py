"""Faults in a user's YAML file, with their lines, found before its values are read."""

import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from sweeps.planning.form_fault import BASE as BASE
from sweeps.planning.form_fault import line_of
from sweeps.planning.row_and_scale_files import example, form_faults
from sweeps.planning.schema import FIRST_TASK, Schema
from sweeps.planning.settings import tree_type
from sweeps.task import Task
from transformer.schema import Problem, kind_of

HEADER = re.compile(r"\s*#\s*@package\s+(\S+)\s*$")
ABOUT_ALL_GROUPS = ("row", "scale")
"""Groups whose files set keys of other groups. Without the header, Hydra would read those as the group's keys."""
LARGEST = 1_000_000  # bytes
TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Examined:
    """``faults`` keep the file from being read. ``doubts`` concern single keys; the other keys can be checked too.

    ``follows`` are the keys whose problems follow from a doubt.
    """

    faults: tuple[Problem, ...] = ()
    doubts: tuple[Problem, ...] = ()
    follows: tuple[str, ...] = ()


def examined(path: Path, shown: str, group: str, task: Task[Any]) -> Examined:
    """Every problem of the file ``path``, which messages call ``shown``."""
    try:
        return _Examination(path.stem, shown, group, task).of(_text(path))
    except _FaultError as error:
        place = f"{shown}:{error.line}" if error.line else shown
        return Examined((Problem(path.stem, error.found, error.allowed, None, place),))


class _FaultError(ValueError):
    def __init__(self, found: str, allowed: str, line: int | None = None) -> None:
        self.found, self.allowed, self.line = found, allowed, line
        super().__init__(found)


def _text(path: Path) -> str:
    """The content of the file, without a byte-order mark."""
    allowed = "must be a YAML file"
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for its writer
            raise _FaultError(f"is {_kind(status.st_mode)}", allowed)
        if status.st_size > LARGEST:
            raise _FaultError(f"has {status.st_size} bytes", f"{allowed} of at most {LARGEST} bytes")
        content = path.read_bytes()
    except OSError as error:
        fault = f"is a link to {path.readlink()}, which cannot be opened" if path.is_symlink() else "cannot be opened"
        raise _FaultError(f"{fault} ({error.strerror})", allowed) from None
    return _decoded(content)


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or a socket"


def _decoded(content: bytes) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _FaultError("is UTF-16", "save it as UTF-8", 1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _FaultError("is not UTF-8", "save it as UTF-8", content.count(b"\n", 0, error.start) + 1) from None


class _Examination:
    """One text, and the problems found in it."""

    def __init__(self, name: str, shown: str, group: str, task: Task[Any]) -> None:
        self.name, self.shown, self.group = name, shown, group
        self.tree, self.schema, self.needs_header = tree_type(task), Schema.of(task), task.name == FIRST_TASK
        self.faults: list[Problem] = []
        self.doubts: list[Problem] = []
        self.follows: list[str] = []

    def of(self, text: str) -> Examined:
        self._check_events(text)
        if not self.faults:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            if isinstance(root, yaml.MappingNode) and root.value:
                self._check_root(root, text)
            else:
                self._fault(
                    self.name, f"is {_described(root)}", self._must_set(), root.start_mark.line + 1 if root else 1
                )
        return Examined(tuple(self.faults), tuple(self.doubts), tuple(self.follows))

    def _check_events(self, text: str) -> None:
        """Syntax, tags, aliases of groups, and further documents."""
        anchors, documents = set[str](), 0
        for event in _events(text):
            line = line_of(event)
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents == 2:
                    self._fault(self.name, "holds a second document after ---", "keep one document per file", line)
            if tag := getattr(event, "tag", None):
                self._fault(self.name, f"has the tag {_tag(tag)}", "remove it: values are plain", line)
            if isinstance(event, yaml.CollectionStartEvent) and event.anchor:
                anchors.add(event.anchor)
            if isinstance(event, yaml.AliasEvent) and event.anchor in anchors:
                self._fault(self.name, f"repeats a group by *{event.anchor}", "write its values out", line)

    def _check_root(self, root: yaml.MappingNode, text: str) -> None:
        self._check_header(text)
        self._check_mapping(root, "" if self.group in (*ABOUT_ALL_GROUPS, BASE) else self.group)
        top = {key.value: (key, value) for key, value in root.value}
        if "defaults" in top:
            allowed = "remove it, and write the values into this file"
            self._fault("defaults", f"is not supported in conf/{self.group}/", allowed, line_of(top["defaults"][0]))
        for key, (node, value) in top.items():
            if "." in key:
                group, _, rest = key.partition(".")
                shown = value.value if isinstance(value, yaml.ScalarNode) else "…"
                self._fault(key, "has a dot", f"write {group}: {{{rest}: {shown}}}", line_of(node))
        for fault in form_faults(self.group, self.name, top, self.schema):
            self._doubt(fault.key, fault.found, fault.allowed, fault.line, fault.nearest)
            self.follows += fault.follows

    def _check_header(self, text: str) -> None:
        """The first comments may hold a license before the header."""
        head = []
        for line in text.splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                break
            head.append(line)
        packages = [(number, found[1]) for number, line in enumerate(head, 1) if (found := HEADER.match(line))]
        if self.group in (*ABOUT_ALL_GROUPS, BASE):
            given = [package for _, package in packages]
            if given != ["_global_"] and (given or self.needs_header):
                self._fault(self.name, 'lacks "# @package _global_"', "must begin with that line", 1)
        else:
            for number, package in packages:
                allowed = f"remove that line: files in conf/{self.group}/ set the keys of {self.group}"
                self._fault(self.name, f'has "# @package {package}"', allowed, number)

    def _check_mapping(self, mapping: yaml.MappingNode, prefix: str) -> None:
        first: dict[str, int] = {}
        for key, value in mapping.value:
            name = f"{prefix}.{key.value}" if prefix else str(key.value)
            if key.tag == f"{TAG}merge":
                self._fault(prefix or self.name, "takes keys by <<", "write the keys out", line_of(key))
            elif key.tag != f"{TAG}str":
                shown = key.value if isinstance(key, yaml.ScalarNode) else "a list or group"
                self._fault(prefix or self.name, f"has {shown} as a key", "keys must be words", line_of(key))
            elif key.value in first:
                found = f"is given twice, first in line {first[key.value]}"
                self._fault(name, found, "keep one of them", line_of(key))
            else:
                first[key.value] = line_of(key)
                self._check_value(value, name)

    def _check_value(self, value: yaml.Node, key: str) -> None:
        if isinstance(value, yaml.MappingNode):
            self._check_mapping(value, key)
        elif isinstance(value, yaml.SequenceNode):
            for item in value.value:
                self._check_value(item, key)
        elif isinstance(value, yaml.ScalarNode) and value.style is None:
            self._check_plain(value, key)

    def _check_plain(self, value: yaml.ScalarNode, key: str) -> None:
        """A value without quotes that YAML reads as another than it looks like."""
        text, kind = value.value, value.tag.removeprefix(TAG)
        if text == "???":
            self._doubt(key, "is ???, a value that is missing", "give a value", line_of(value))
        elif kind in ("int", "float") and (re.match(r"[-+]?0[\d_]+$", text) or ":" in text or "0b" in text):
            read = yaml.safe_load(text)
            allowed = f"write {read}, or put quotes around a text"
            self._doubt(key, f"is {text}, which YAML reads as {read}", allowed, line_of(value))
        elif kind == "bool" and text.lower() not in ("true", "false") and kind_of(self.tree, key) is not bool:
            read = str(yaml.safe_load(text)).lower()
            found = f"is {text}, which YAML reads as {read}"
            self._doubt(key, found, f'write "{text}" in quotes, or {read}', line_of(value))

    def _must_set(self) -> str:
        if self.group == BASE:
            return f"must set the keys of {', '.join(self.schema.groups)}"
        least = example(self.group, self.schema)
        return f"must set keys{f', such as {least}' if least else ''}"

    def _fault(self, key: str, found: str, allowed: str, line: int) -> None:
        self.faults.append(Problem(key, found, allowed, None, f"{self.shown}:{line}"))

    def _doubt(self, key: str, found: str, allowed: str, line: int, near: str | None = None) -> None:
        self.doubts.append(Problem(key, found, allowed, near, f"{self.shown}:{line}"))


def _events(text: str) -> Iterator[yaml.Event]:
    """The text's events, composed once first. Raises _FaultError with the line."""
    try:
        list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        yield from yaml.parse(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_fault(text, error) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _FaultError(f"has the character #x{error.character:04x}", "must be plain text", line) from None
    except RecursionError:
        raise _FaultError("is nested too deeply", "must be groups of keys") from None


def _syntax_fault(text: str, error: yaml.MarkedYAMLError) -> _FaultError:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return _FaultError(f"cannot be read: {error.problem}", "must be valid YAML")
    line, rest = text.split("\n")[mark.line : mark.line + 1], text[mark.index :]
    if rest.startswith("\t"):
        return _FaultError("has a tab", "indent with spaces", mark.line + 1)
    if "???" in "".join(line):
        return _FaultError("has ???, a value that is missing", "give a value", mark.line + 1)
    return _FaultError(f"cannot be read: {error.problem}", "must be valid YAML", mark.line + 1)


def _described(root: yaml.Node | None) -> str:
    if isinstance(root, yaml.SequenceNode):
        return "a list"
    if isinstance(root, yaml.ScalarNode) and root.value:
        return f'only "{root.value}"' if len(root.value) < 40 else "only text"
    return "empty"


def _tag(tag: str) -> str:
    return f"!!{tag.removeprefix(TAG)}" if tag.startswith(TAG) else tag
