"""Refused values: the problem of each, and the error that holds all problems of a request."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracking.files import DamagedFileError

UNKNOWN_KEY = "is not a key"
COMMAND_LINE = "command line"
"""The ``place`` of a problem with something that you typed."""


@dataclass(frozen=True)
class Typo:
    """A name that is none of ``names``. They stand for ``prefix`` + name, such as a dotted key."""

    name: str
    names: tuple[str, ...]
    prefix: str = ""

    @property
    def nearest(self) -> str | None:
        """What the name most likely means; None if nothing comes close."""
        name = nearest(self.name, self.names)
        return name and f"{self.prefix}{name}"


@dataclass(frozen=True)
class Problem:
    """One refused value: the key, the value found there, and the allowed values.

    ``nearest`` is what the user most likely meant, or a ``Typo`` from which it is looked up.
    """

    key: str
    found: str
    allowed: str
    nearest: str | Typo | None = None
    place: str | None = None

    @property
    def suggestion(self) -> str | None:
        """What was most likely meant; None if nothing comes close."""
        return self.nearest.nearest if isinstance(self.nearest, Typo) else self.nearest

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        suggestion = self.suggestion
        hint = f" Did you mean {suggestion}?" if suggestion else ""
        return f"{self.key}{place}: {self.found}; {self.allowed}.{hint}"


class RefusedError(ValueError):
    """A request that can't run: every problem, and the ``outcome`` if part of it was done."""

    def __init__(self, problems: Iterable[Problem], outcome: str = "") -> None:
        self.problems = list(problems)
        self.outcome = outcome
        super().__init__("\n".join(map(str, self.problems)))


def refusal(
    key: str, found: str, allowed: str, nearest: str | Typo | None = None, place: str | None = None
) -> RefusedError:
    """The error of a request with one problem."""
    return RefusedError([Problem(key, found, allowed, nearest, place)])


def refuse(problems: Iterable[Problem]) -> None:
    """Raises RefusedError if there are problems. Each is reported once."""
    unique_problems = dict.fromkeys(problems)
    if unique_problems:
        raise RefusedError(unique_problems)


def damaged(error: "DamagedFileError") -> Problem:
    """The problem with a damaged file, and its remedy."""
    return Problem(error.path.name, str(error), error.remedy)


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name most like ``name``, whatever its case and separators; None if none is."""
    names: dict[str, str] = {}
    for allowed_name in allowed:
        names.setdefault(plain(allowed_name), allowed_name)
    matches = difflib.get_close_matches(plain(name), names, n=1, cutoff=0.6)
    return names[matches[0]] if matches else None


def plain(name: str) -> str:
    """A name in lower case, without separators."""
    return re.sub(r"[\s_-]+", "", name.casefold())
