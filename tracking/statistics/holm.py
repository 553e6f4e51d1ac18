"""Holm's adjustment of several p values, so that all claims of one family are right together."""

from collections.abc import Mapping
from typing import TypeVar

Name = TypeVar("Name")


def holm(values: Mapping[Name, float]) -> dict[Name, float]:
    """Each p times the number of p that are at least as large, never below a smaller one's (Holm 1979); at most 1."""
    adjusted, largest = dict[Name, float](), 0.0
    for rank, name in enumerate(sorted(values, key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[name]))
        adjusted[name] = largest
    return {name: adjusted[name] for name in values}
