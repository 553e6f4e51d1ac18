"""What a row may change: the differences from base that count, and those that are refused."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from sweeps.planning.layers import Tree
from sweeps.schema import Problem

Place = Callable[[str], str | None]
"""Where the value of a dotted key comes from."""


def differences(base: Tree, row: Tree, groups: Iterable[str]) -> dict[str, Any]:
    """Dotted keys and values by which a row differs from base in these groups."""
    return {
        f"{group}.{key}": value
        for group in groups
        if isinstance(row.get(group), dict) and isinstance(base.get(group), dict)
        for key, value in row[group].items()
        if value != base[group].get(key, object())
    }


def erased(changes: Mapping[str, Mapping[str, Any]], overridden: Iterable[str], place: Place) -> Iterator[Problem]:
    """An override of a key that a row changes would erase the row's difference."""
    for key in overridden:
        rows = [row for row, changed in changes.items() if key in changed]
        if rows:
            found = f"is changed by row{'s' * (len(rows) > 1)} {', '.join(rows)}"
            allowed = "remove the override, or select rows that keep base's value"
            yield Problem(key, found, allowed, None, place(key))
