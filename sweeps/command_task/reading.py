"""Reads ``conf/task/NAME.yaml``, and refuses all its faults at once, each with its line."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from sweeps.command_task.definition import (
    BOOLEANS,
    FIELDS,
    Definition,
    UnfitError,
    WrittenMetric,
    fault_of_argument,
)
from sweeps.command_task.references import References
from sweeps.command_task.template import KEYS
from sweeps.problems import UNKNOWN_KEY, Problem, RefusedError, nearest
from tracking.card import Metric

FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")
METRIC_FIELDS = ("better", "set", "point", "source", "label", "unit", "decimals", "tabled")
DIRECTIONS = ("up", "down")
NEEDED = {
    "command": "write the command, such as [python, train.py, --lr, '{args.lr}']",
    "metrics": "name one, such as accuracy: up; `allelse probe -- COMMAND` lists what it writes",
}
"""The keys that a file must have, and what to write there."""


class Loader(yaml.SafeLoader):
    """YAML as Hydra's files are read: ``1e-3`` is a number."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))


def read_definition(name: str, path: Path, file: str) -> Definition:
    """The command that the file defines. ``file`` is its path for messages. Raises RefusedError."""
    try:
        root = yaml.compose(path.read_text("utf-8-sig"), Loader=Loader)
        if not isinstance(root, yaml.MappingNode):
            raise ValueError("it holds no keys")
        content = Loader("").construct_document(root)
    except (OSError, ValueError, yaml.YAMLError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}:{mark.line + 1}" if mark else file
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        fault = f"cannot be read: {reason}"
        raise RefusedError([Problem(name, fault, "must be YAML in UTF-8", place=place)]) from None
    return Reading(name, file, root, content).definition()


class Reading:
    """One file: its values, the line of each key, and the problems so far."""

    def __init__(
        self, name: str, file: str, root: yaml.MappingNode, content: Mapping[Any, Any]
    ) -> None:
        self.name = name
        self.file = file
        self.problems: list[Problem] = []
        self.lines = dict(_lines(root))
        self._note_repeated(root)
        self._booleans = dict(_booleans(root))
        self._values = {str(key): value for key, value in content.items()}

    def definition(self) -> Definition:
        """The definition. Raises RefusedError with every problem."""
        self._refuse_unknown_keys()
        self._refuse_missing_keys()
        fields = {key: self._checked(key) for key in FIELDS if self._values.get(key) is not None}
        metrics = fields.pop("metrics", None) or {}
        arguments = fields.pop("args", None) or {}
        if self.problems:
            fields = {key: value for key, value in fields.items() if value is not None}
        definition = Definition(
            name=self.name,
            file=self.file,
            words=fields.pop("command", ()),
            metrics=tuple(self._metrics(metrics)),
            args=dict(self._arguments(arguments)),
            lines=self.lines,
            booleans=self._booleans,
            **fields,
        )
        self.problems += References(definition, self._values).problems()
        if self.problems:
            raise RefusedError(sorted(self.problems, key=self._line_of))
        return definition

    def _refuse_unknown_keys(self) -> None:
        """A misspelled key is read as the one that it means, so that nothing follows from it."""
        for key in self._values.keys() - FIELDS.keys():
            similar = nearest(key, FIELDS)
            self.refuse(key, UNKNOWN_KEY, f"keys are {', '.join(FIELDS)}", similar)
            if similar is not None and similar not in self._values:
                self._values[similar] = self._values[key]
                below = [name for name in self.lines if f"{name}.".startswith(f"{key}.")]
                for name in below:
                    self.lines[similar + name.removeprefix(key)] = self.lines[name]

    def _refuse_missing_keys(self) -> None:
        for key, advice in NEEDED.items():
            if not self._values.get(key):
                self.refuse(key, "is missing", advice)
                self._values.pop(key, None)

    def refuse(self, key: str, fault: str, allowed: str, similar: str | None = None) -> None:
        place = f"{self.file}:{self.lines.get(key, 1)}"
        self.problems.append(Problem(key, fault, allowed, similar, place))

    def _line_of(self, problem: Problem) -> int:
        return int(str(problem.place).rpartition(":")[2])

    def _checked(self, key: str) -> Any:
        """The value of a key; None if it is refused."""
        value = self._values[key]
        try:
            return FIELDS[key](value)
        except UnfitError as error:
            self.refuse(key, f"is {value!r:.60}", str(error))
            return None

    def _arguments(self, entries: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Base's values by key."""
        for name, value in entries.items():
            refused = fault_of_argument(name, value)
            if refused is None:
                yield name, value
            else:
                self.refuse(f"{KEYS}{name}", *refused)

    def _metrics(self, entries: Mapping[str, Any]) -> Iterator[WrittenMetric]:
        """The metrics. ``accuracy: up`` is short for ``accuracy: {better: up}``."""
        for name, value in entries.items():
            key = f"metrics.{name}"
            fields = {"better": value} if isinstance(value, str) else value
            if not isinstance(fields, dict):
                self.refuse(key, f"is {value!r:.40}", "must be up, down or a group of keys")
                continue
            fields = self._known_fields(key, fields)
            better = fields.get("better")
            if better in DIRECTIONS:
                yield from self._metric(name, key, fields)
            else:
                fault = "has no direction" if better is None else f'is better "{better}"'
                self.refuse(key, fault, "write better: up or better: down")

    def _known_fields(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """A metric's fields. A misspelled one is read as the one that it means."""
        known = {name: value for name, value in fields.items() if name in METRIC_FIELDS}
        for unknown in [name for name in fields if name not in known]:
            allowed = f"keys of a metric are {', '.join(METRIC_FIELDS)}"
            similar = nearest(unknown, METRIC_FIELDS)
            self.refuse(f"{key}.{unknown}", UNKNOWN_KEY, allowed, similar)
            if similar is not None:
                known.setdefault(similar, fields[unknown])
        return known

    def _metric(self, name: str, key: str, fields: dict[str, Any]) -> Iterator[WrittenMetric]:
        point = str(fields.pop("point", name))
        source = fields.pop("source", None)
        metric = Metric(name, **fields)
        for fault in metric.faults():
            self.refuse(key, fault, "change it")
        yield WrittenMetric(metric, point, None if source is None else str(source))

    def _note_repeated(self, root: yaml.MappingNode) -> None:
        """Refuse keys that stand there twice: YAML would take the last one in silence."""
        seen: set[str] = set()
        for key, _ in _lines(root):
            if key in seen:
                self.refuse(key, "stands there twice", "remove one of them")
            seen.add(key)


def _lines(node: yaml.Node, around: str = "") -> Iterator[tuple[str, int]]:
    """Each dotted key below the node, with its line."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            key = f"{around}{name.value}"
            yield key, name.start_mark.line + 1
            yield from _lines(value, f"{key}.")


def _booleans(root: yaml.MappingNode) -> Iterator[tuple[str, tuple[str, str]]]:
    """How base spells true and false, by key."""
    for group, keys in root.value:
        if group.value == KEYS.rstrip(".") and isinstance(keys, yaml.MappingNode):
            for name, value in keys.value:
                pairs = [pair for pair in BOOLEANS if value.value in pair]
                yield name.value, next(iter(pairs), BOOLEANS[0])
