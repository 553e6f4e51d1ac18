"""Refused values: the problem of each, and the error that holds all problems of a request."""

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
)

if TYPE_CHECKING:
    from tracking.files import DamagedFileError


UNKNOWN_KEY = "is not a key"

COMMAND_LINE = "command line"
"""The place of what was typed."""


@dataclass(frozen=True)
class Problem:
    """One refused value: the key, the value found there, and the allowed values."""

    key: str
    found: str
    allowed: str
    nearest: str | None = None
    place: str | None = None

    def __str__(self) -> str:
        place = f" ({self.place})" if self.place else ""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.key}{place}: {self.found}; {self.allowed}.{hint}"


class RefusedError(ValueError):
    """A request that cannot run; holds every problem found, and the ``outcome`` if a part of it was
    done."""

    def __init__(self, problems: Iterable[Problem], outcome: str = "") -> None:
        self.problems, self.outcome = list(problems), outcome
        super().__init__("\n".join(map(str, self.problems)))


def damaged(error: "DamagedFileError") -> Problem:
    """What is wrong with a damaged file, and its remedy."""
    return Problem(error.path.name, str(error), error.remedy)


def nearest(name: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that looks most like ``name``, without regard to case and separators; None
    if none is close."""
    known: dict[str, str] = {}
    for other in allowed:
        known.setdefault(plain(other), other)
    matches = difflib.get_close_matches(plain(name), known, n=1, cutoff=0.6)
    return known[matches[0]] if matches else None


def plain(name: str) -> str:
    """A name in lower case, without separators."""
    return re.sub(r"[\s_-]+", "", name.casefold())
