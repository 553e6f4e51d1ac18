"""The settings for scoring behind a table's rows, such as `decode.beam`: which seeds and rows
share.

Scores omit a setting while it has its neutral value. So an absent setting is a value, and takes
part in comparisons.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tracking.card import Card

ABSENT = "default"
"""The value of an omitted setting. Only a task knows its neutral values."""
ScoringSettings = dict[str, list[Any]]
"""One row's settings, each with its values, without repeats. One value, unless the row's seeds
differ; none without scores."""


def over_seeds(
    decodes: Sequence[Mapping[str, Any]], names: Iterable[str] | None = None
) -> ScoringSettings:
    """From the settings of each seed; only these ``names``, by default all that any seed has."""
    if names is None:
        names = (name for decode in decodes for name in decode)
    settings = ScoringSettings()
    for name in dict.fromkeys(names):
        settings[name] = _distinct(decode.get(name, ABSENT) for decode in decodes)
    return settings


def over_rows(
    card: Card, results_of_row: Mapping[str, Mapping[int, Mapping[str, Any]]], reference: str
) -> dict[str, ScoringSettings]:
    """The settings of every row, the reference first. Results are by row and seed."""
    ordered = sorted(results_of_row, key=lambda row: row != reference)
    decodes = {row: _decodes(card, results_of_row[row].values()) for row in ordered}
    names = dict.fromkeys(
        name for row_decodes in decodes.values() for decode in row_decodes for name in decode
    )
    return {row: over_seeds(row_decodes, names) for row, row_decodes in decodes.items()}


def _decodes(card: Card, results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The settings of each result that has scores. All its sets are scored with the same ones."""
    decodes = []
    for result in results:
        scored = (result["scores"].get(name) for name in card.scored_sets)
        first_scores = next((scores for scores in scored if scores is not None), None)
        if first_scores is not None:
            decodes.append(first_scores.get("decode", {}))
    return decodes


def agreed(settings: ScoringSettings) -> dict[str, Any]:
    """The settings that have the same value for all seeds."""
    return {name: values[0] for name, values in settings.items() if len(values) == 1}


def mixed(settings: ScoringSettings) -> tuple[str, ...]:
    """The names of the settings that differ between seeds."""
    return tuple(name for name, values in settings.items() if len(values) > 1)


def decode_note(
    card: Card,
    settings: ScoringSettings,
    differing: Mapping[str, Any],
    reference: Mapping[str, Any],
) -> str:
    """Such as "decode.alpha 1.0, not 0.6; seeds mix decode.beam 4, 8"."""
    notes = [
        f"{card.setting(name)} {value}, not {reference[name]}" for name, value in differing.items()
    ]
    for name in mixed(settings):
        values = ", ".join(map(str, settings[name]))
        notes.append(f"seeds mix {card.setting(name)} {values}")
    return "; ".join(notes)


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Without repeats, in order. Values need no hash."""
    distinct_values = list[Any]()
    for value in values:
        if value not in distinct_values:
            distinct_values.append(value)
    return distinct_values
