"""Errors that name their place: faults of text, files and settings, and output that is not finite.

``verbs/models.py`` turns faults into refusals.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A wrong value: its key or file, the problem, what is allowed, the nearest valid override."""

    key: str
    found: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.key}: {self.found}; {self.allowed}.{hint}"


class FaultyError(ValueError):
    """Text, files or settings that cannot be used; holds every fault."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__(*faults)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


FIX = "Use an earlier checkpoint, or train again with a smaller train.lr_factor."


class NotFiniteError(ArithmeticError):
    """A model computed NaN or an infinite score; ``places`` are sentence numbers, counted from 0.

    ``where`` names their set, such as "dev"; ``item`` names the unit, such as "sentence".
    """

    def __init__(self, places: Iterable[int], where: str = "", item: str = "sentence") -> None:
        self.places = sorted(places)
        self.where = where
        self.item = item
        super().__init__(self.places, where, item)  # unpickling passes these to __init__

    def __str__(self) -> str:
        place = f"{self.item} {self.places[0] + 1}"
        if self.where:
            place = f"{self.where}, {place}"
        return f"{place}: the model's output is not a finite number. {FIX}"


@contextmanager
def sentences_of(where: str) -> Iterator[None]:
    """A context that puts the name of a set before the place in a NotFiniteError.

    In nested contexts the outermost name comes first.
    """
    try:
        yield
    except NotFiniteError as error:
        place = f"{where}, {error.where}" if error.where else where
        raise NotFiniteError(error.places, place, error.item) from error
