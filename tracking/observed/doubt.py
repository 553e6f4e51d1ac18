"""A doubt: something about observed runs that their table cannot defend."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

DoubtKind = Literal[
    "hidden-difference",
    "unlike-settings",
    "unlike-code",
    "unlike-packages",
    "unlike-data",
    "unequal-steps",
    "repeated-runs",
    "missing-seeds",
    "chosen-seeds",
    "left-out-runs",
    "best-and-last",
]
TITLES: dict[DoubtKind, str] = {
    "hidden-difference": "Rows with changes that their names don't mention",
    "unlike-settings": "Seeds of one row with different settings",
    "unlike-code": "Unlike code",
    "unlike-packages": "Unlike packages",
    "unlike-data": "Unlike data",
    "unequal-steps": "Unequal steps",
    "repeated-runs": "Repeated runs",
    "missing-seeds": "Missing seeds",
    "chosen-seeds": "Seeds that look chosen",
    "left-out-runs": "Runs that were left out",
    "best-and-last": "The best value in some runs, the last one in others",
}
"""In the order in which they are listed."""
MOST_NAMED = 8


@dataclass(frozen=True)
class Doubt:
    """``text`` is one sentence. ``runs``: the names of the runs behind it, as their source has
    them."""

    kind: DoubtKind
    text: str
    runs: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return TITLES[self.kind]

    @property
    def other_runs(self) -> str:
        """The names of its runs, unless the sentence has them; "" if it has them all."""
        others = [name for name in self.runs if name not in self.text]
        return f"Runs: {named(others)}" if others else ""


def named(names: Sequence[str]) -> str:
    """The names, or the first of them and how many more there are."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
