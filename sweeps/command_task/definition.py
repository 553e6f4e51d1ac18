"""``conf/task/NAME.yaml``: what it may hold, and the checks of one field each."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

from sweeps.command_task.template import KEYS, OUT, Template, placeholders, split
from tracking.card import Metric

GRACE_S = 30.0
"""From SIGTERM to SIGKILL, unless the file says otherwise: enough to write a checkpoint."""
UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
BOOLEANS = (("true", "false"), ("True", "False"), ("yes", "no"), ("on", "off"), ("TRUE", "FALSE"))
"""How a command may spell its booleans. Base's spelling holds for all rows."""
SCALARS = (bool, int, float, str)


@dataclass(frozen=True)
class WrittenMetric:
    """A metric, and the point that gives its value.

    ``source`` is where the command writes the point; None if any place counts.
    """

    metric: Metric
    point: str
    source: str | None = None


@dataclass(frozen=True)
class Definition:
    """A command as a task. Durations are in seconds.

    ``lines`` has the line of each dotted key, counted from 1. ``booleans`` is how the command
    spells true and false, by key.
    """

    name: str
    file: str
    words: tuple[str, ...]
    metrics: tuple[WrittenMetric, ...]
    args: Mapping[str, Any] = field(default_factory=dict)
    steps: int | str | None = None
    data: tuple[str, ...] = ()
    observes: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: float | None = None
    timeout: float | None = None
    checkpoint: str | None = None
    grace: float = GRACE_S
    version: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)
    booleans: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def template(self) -> Template:
        toggles = [key for key, value in self.args.items() if str(value).startswith("-")]
        return Template(self.words, frozenset(f"{KEYS}{key}" for key in toggles))

    @property
    def takes_out(self) -> bool:
        """Whether its command or its variables name the trial's folder."""
        return any(OUT in placeholders(text) for text in (*self.words, *self.env.values()))

    def place(self, key: str) -> str:
        """file:line of the key, or of the nearest key around it."""
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        return f"{self.file}:{self.lines.get(key, 1)}"


class UnfitError(ValueError):
    """A value that its key does not allow. The message begins with "must be"."""


def words(value: Any) -> tuple[str, ...]:
    """A command's words, from a list or from one line."""
    try:
        parts = split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise UnfitError(f"must be a list of words, or one line: {error}") from None
    if not isinstance(parts, list) or not parts:
        raise UnfitError("must be a list of words, or one line")
    if any(isinstance(part, list | dict) for part in parts):
        raise UnfitError("must be a list of words; put placeholders in quotes, as '{seed}'")
    return tuple(text_of(part, BOOLEANS[0]) for part in parts)


def fault_of_argument(name: str, value: Any) -> tuple[str, str] | None:
    """The fault of a key of ``args``, and what is allowed instead; None for one that is fine."""
    if not name.isidentifier() or iskeyword(name):
        return "is no name", "must consist of letters, digits and _"
    if name == "seed":
        return "is the seed", "remove it, and write {seed} in the command"
    if not _is_plain(value):
        return f"is {value!r:.60}", "must be a plain value, or a list of values of one type"
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(type(item) is type(value[0]) for item in value)
    return value is None or type(value) in SCALARS


def variables(value: Any) -> dict[str, str]:
    """Environment variables by name."""
    entries = mapping(value)
    if any(isinstance(text, list | dict) or text is None for text in entries.values()):
        raise UnfitError("must hold texts by the names of variables")
    return {name: text_of(text, BOOLEANS[0]) for name, text in entries.items()}


def mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise UnfitError("must be a group of keys")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """One text, or a list of texts."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) and item for item in items):
        raise UnfitError("must be a list of texts")
    return tuple(items)


def text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise UnfitError("must be a text")
    return value


def duration(value: Any) -> float:
    """Seconds, from a number or from a text such as "90 min"."""
    match = DURATION.fullmatch(str(value).strip())
    seconds = float(match[1]) * UNITS.get(match[2], 0.0) if match else 0.0
    if isinstance(value, bool) or seconds <= 0:
        raise UnfitError('must be a duration above 0, such as 90, "30 min" or "2 h"')
    return seconds


def count(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise UnfitError("must be a whole number of at least 1")
    return value


def amount(value: Any) -> float:
    if type(value) not in (int, float) or value < 0:
        raise UnfitError("must be a number of at least 0")
    return float(value)


def step_count(value: Any) -> int | str:
    """A number of steps, or the placeholder of the key that holds it."""
    if isinstance(value, str) and re.fullmatch(r"\{args\.\w+\}", value):
        return value
    try:
        return count(value)
    except UnfitError:
        allowed = "must be a whole number of at least 1, or a key such as '{args.steps}'"
        raise UnfitError(allowed) from None


FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "command": words,
    "args": mapping,
    "metrics": mapping,
    "steps": step_count,
    "data": texts,
    "observes": texts,
    "env": variables,
    "gpus": amount,
    "timeout": duration,
    "checkpoint": text,
    "grace": duration,
    "version": count,
}
"""The keys of the file, and what reads each."""


def text_of(value: Any, spelled: tuple[str, str]) -> str:
    """A value as the command gets it. ``spelled`` is how the command writes true and false."""
    if isinstance(value, bool):
        return spelled[0] if value else spelled[1]
    return str(value)
