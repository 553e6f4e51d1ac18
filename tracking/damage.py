"""Damaged and unreadable files of a study: which file, where and why."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

Found = TypeVar("Found")
Other = TypeVar("Other")
TEXT, WHOLE, NUMBER, OBJECT = (str,), (int,), (int, float), (dict,)
"""Types as JSON is parsed: true and false are no numbers."""
NUMBER_OR_NONE, WHOLE_OR_NONE = (*NUMBER, NoneType), (*WHOLE, NoneType)
NOUNS = {str: "text", int: "a whole number", dict: "an object"}
REMEDIES = {
    "study.json": "move it away; `allelse sweep` with its overrides writes it again and keeps finished trials",
    "result.json": "`allelse sweep` resumes from the last checkpoint and writes it again",
    "config.yaml": "`allelse sweep` writes it again",
    "provenance.json": "`allelse sweep` sets it aside; the next attempt writes it again",
    "attempts.jsonl": "`allelse sweep` keeps its good lines",
    "journal.jsonl": "`allelse sweep` keeps its good lines",
    "mlflow-ledger.json": "`allelse sync` writes it again",
}


class DamagedFileError(ValueError):
    """A file that no reader can use. ``line`` counts from 1; None means the whole file."""

    def __init__(self, path: Path, cause: str, line: int | None = None) -> None:
        self.path, self.cause, self.line = path, cause, line
        super().__init__(f"{self.place}: {cause}")

    @property
    def place(self) -> str:
        return str(self.path) if self.line is None else f"{self.path}:{self.line}"

    @property
    def remedy(self) -> str:
        """How to fix it."""
        other = "`allelse evaluate` evaluates the set again" if self.path.suffix == ".jsonl" else "move it away"
        return REMEDIES.get(self.path.name, other)

    @property
    def note(self) -> str:
        """For a table that already names the folder: "journal.jsonl:2 is damaged: not a JSON line"."""
        name = self.path.name if self.line is None else f"{self.path.name}:{self.line}"
        return f"{name} is damaged: {self.cause}"


class UnreadableError(DamagedFileError):
    """A file that the system cannot read. It may be intact, so it is neither replaced nor treated as missing.

    ``errno`` and ``filename`` are those of the system's error."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(path, f"cannot be read: {error.strerror or error}")
        self.errno, self.filename = error.errno, str(path)

    @property
    def remedy(self) -> str:
        return "it may be intact and is left unchanged; make it readable, then run the command again"

    @property
    def note(self) -> str:
        return f"{self.path.name} {self.cause}"


def misfit(content: Mapping[str, Any], form: Mapping[str, tuple[type, ...]]) -> str | None:
    """Such as "must have a whole number as its step", for the first key whose value has none of the form's types."""
    for name, types in form.items():
        if type(content.get(name)) not in types:
            return f"must have {'a number' if float in types else NOUNS[types[0]]} as its {name}"
    return None


def unless_damaged(read: Callable[[], Found], otherwise: Other) -> Found | Other:
    """The result of ``read``, or ``otherwise`` if its file is damaged or unreadable. For callers that report the fault
    in another place."""
    try:
        return read()
    except DamagedFileError:
        return otherwise


def unless_lost(read: Callable[[], Found], otherwise: Other) -> Found | Other:
    """The same for callers that rewrite the file. Raises UnreadableError, since an unreadable file may be intact."""
    try:
        return read()
    except UnreadableError:
        raise
    except DamagedFileError:
        return otherwise


def set_aside(path: Path) -> Path:
    """Rename to ``kept_name`` and return the new path. Nothing is deleted."""
    return path.rename(kept_name(path))


def kept_name(path: Path) -> Path:
    """``<name>.damaged``, or the first free name of ``<name>.damaged-2`` …"""
    kept, number = path.with_name(f"{path.name}.damaged"), 1
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.damaged-{number}")
    return kept
