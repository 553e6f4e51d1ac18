"""What is wrong with text, files and settings. ``verbs/refusing.py`` makes a refusal of it."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A wrong value: its key or its file, what was found, what is allowed, and the nearest override that is."""

    key: str
    found: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.key}: {self.found}; {self.allowed}.{hint}"


class FaultyError(ValueError):
    """Text, files or settings that cannot be used; holds every fault found."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults
        super().__init__(*faults)

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


def raise_any(faults: Iterable[Fault]) -> None:
    """Raises FaultyError with each of these faults once, unless there are none."""
    if found := dict.fromkeys(faults):
        raise FaultyError(*found)
