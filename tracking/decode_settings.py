"""The settings for scoring behind a row's scores, such as `decode.beam`: whether its seeds agree, and how the row
differs from base.

Scores omit a setting while it has its neutral value. So an absent setting is a value, and takes part in comparisons.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracking.card import Card


class _Absent:
    """The value of an omitted setting. Only `transformer` defines the neutral value itself."""

    def __str__(self) -> str:
        return "default"


ABSENT = _Absent()


@dataclass(frozen=True)
class DecodeSettings:
    """The settings of one row, over its scored seeds."""

    values: dict[str, list[Any]]  # of each setting, every value once: one value unless the seeds differ
    scored: bool  # without scores nothing can be compared

    @staticmethod
    def of(decodes: Sequence[Mapping[str, Any]]) -> "DecodeSettings":
        """From the settings of each seed."""
        names = dict.fromkeys(name for decode in decodes for name in decode)
        return DecodeSettings(
            {name: _once(each.get(name, ABSENT) for each in decodes) for name in names}, bool(decodes)
        )

    def agreed(self) -> dict[str, Any]:
        """The settings that all seeds have with one value."""
        return {name: values[0] for name, values in self.values.items() if len(values) == 1}

    def mixed(self) -> dict[str, list[Any]]:
        return {name: values for name, values in self.values.items() if len(values) > 1}

    def other_than(self, reference: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with one value that differs from the reference."""
        agreed, mixed = self.agreed(), self.mixed()
        found = {name: agreed.get(name, ABSENT) for name in (*agreed, *reference) if name not in mixed}
        return {name: value for name, value in found.items() if self.scored and value != reference[name]}


def reference_of(rows: Iterable[DecodeSettings]) -> dict[str, Any]:
    """Each setting's value in the first row whose seeds agree on it. The caller puts base first."""
    scored = [row for row in rows if row.scored]
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for row in scored for name in row.values):
        agreed = [row.agreed().get(name, ABSENT) for row in scored if name not in row.mixed()]
        found |= {name: agreed[0]} if agreed else {}
    return found


def decode_note(
    card: Card, mixed: Mapping[str, Sequence[Any]], other: Mapping[str, Any], reference: Mapping[str, Any]
) -> str:
    """Such as "decode.alpha 1.0, not 0.6; seeds mix decode.beam 4, 8"."""
    differs = [f"{card.setting(name)} {value}, not {reference[name]}" for name, value in other.items()]
    mixes = [f"seeds mix {card.setting(name)} {', '.join(map(str, values))}" for name, values in mixed.items()]
    return "; ".join(differs + mixes)


def _once(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        found += [] if value in found else [value]
    return found
