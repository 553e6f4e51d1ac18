"""Versions of code that have trained the same weights bit by bit, as ``allelse sweep --vouch`` has
shown.

``study.json`` has a record of each such comparison. A version is a hash of the user's code, of our
own files, or the version of allelse.
"""

from collections.abc import Iterable, Mapping
from typing import Any

KINDS = ("code", "own_files", "version")
"""For each kind a record has the version that trained first, and the one that trained again."""
SCORES = "scores"
"""Whether the scores were the same, too: then both versions also score alike."""
VOUCHER: dict[str, Any] = {"trial": str, "ts": str, SCORES: bool} | {kind: [str] for kind in KINDS}
"""What a record holds."""


class SameCode:
    """Which versions count as one. With ``scoring`` only those whose scores were the same."""

    def __init__(self, vouched: Iterable[Mapping[str, Any]], scoring: bool = False) -> None:
        self._groups: list[list[str]] = []
        for voucher in vouched:
            if voucher[SCORES] or not scoring:
                for kind in KINDS:
                    if voucher[kind]:
                        self._join(voucher[kind])

    def first(self, version: str) -> str:
        """The oldest version that is the same."""
        for group in self._groups:
            if version in group:
                return group[0]
        return version

    def are_same(self, version: str, other: str) -> bool:
        return self.first(version) == self.first(other)

    def _join(self, versions: list[str]) -> None:
        """Versions of one comparison, with the groups that have any of them."""
        joined = [group for group in self._groups if not set(group).isdisjoint(versions)]
        merged = [version for group in (*joined, versions) for version in group]
        others = [group for group in self._groups if group not in joined]
        self._groups = [*others, list(dict.fromkeys(merged))]
