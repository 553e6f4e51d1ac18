"""The rows of a study in its order, as figures and page name them."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracking.statistics.rows import BASE, TableRow


@dataclass(frozen=True)
class Entry:
    """One row. ``place`` is its line of the table: figures and page name the row by it, never by its text."""

    place: int
    row: str
    group: str
    label: str  # what it changes; base for base

    @property
    def is_base(self) -> bool:
        return self.row == BASE

    @property
    def full(self) -> str:
        """With its group, for legends over several groups."""
        return self.label if self.is_base or self.group in self.label else f"{self.group}  {self.label}"


def entries(rows: Sequence[TableRow]) -> list[Entry]:
    return [
        Entry(place, row.row, row.group, BASE if row.row == BASE else _together(row.change or row.row))
        for place, row in enumerate(rows)
    ]


def panels(rows: Sequence[Entry], most: int = 6) -> list[list[Entry]]:
    """The rows without base in panels that one can read: whole groups together while they fit, large groups cut."""
    found: list[list[Entry]] = []
    for group in _groups(rows):
        if found and len(found[-1]) + len(group) <= most:
            found[-1] = [*found[-1], *group]
        else:
            found += [group[start : start + most + 2] for start in range(0, len(group), most + 2)]
    return found


def _groups(rows: Sequence[Entry]) -> list[list[Entry]]:
    by_group: dict[str, list[Entry]] = {}
    for entry in rows:
        if entry.row != BASE:
            by_group.setdefault(entry.group, []).append(entry)
    return list(by_group.values())


def _together(change: str) -> str:
    """`d_k = d_v = 16` is not broken at the end of a line."""
    return change.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
