"""How tables describe a row: its cells, its change as text, and whether its size differs."""

from collections.abc import Collection

from sweeps.config.files import BASE
from sweeps.config.schema import one_line
from sweeps.config.settings import Settings
from sweeps.planning.study_rows.composed_rows import ComposedRow, Composition
from sweeps.task import Costs
from sweeps.trees import Values
from tracking.words import LONGEST_CHANGE, shortened

TOLERANCE = 0.05
"""The share of base's parameters and FLOPs by which a row may differ without a note."""


def cells(row: ComposedRow, base: Settings, changed: Collection[str] = ()) -> Values:
    """The row's cells in the table: its differences from base, and for base the values with a
    symbol.

    Base leaves out a key that is neutral, unless it is among those that rows have ``changed``.
    """
    if row.name == BASE:
        return _base_cells(base, changed)
    base_values = _values_by_name(base)
    row_values = _values_by_name(row.settings)
    return {name: value for name, value in row_values.items() if value != base_values[name]}


def _base_cells(base: Settings, changed: Collection[str]) -> Values:
    schema = base.schema
    values = schema.values(base.config)
    base_cells = {}
    for key in schema.symbols:
        is_neutral = key in schema.neutral and values[key] == schema.neutral[key]
        if key in changed or not is_neutral:
            base_cells[schema.short(key)] = values[key]
    return base_cells


def shown_change(row: ComposedRow, base: Settings) -> str:
    """The row's own words for its change, unless the scale has changed its values. For base, its
    values."""
    words = "" if row.name == BASE or row.before_scaling else one_line(row.settings.row.change)
    return shortened(words, LONGEST_CHANGE) or describe(row, base) or row.name


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    return base.schema.described(cells(row, base))


def _values_by_name(settings: Settings) -> Values:
    """All values that a row can vary, by short name. The seed is no part of a row's change, nor is
    where data is fetched."""
    schema = settings.schema
    values = schema.values(settings.config)
    return {schema.short(key): value for key, value in values.items() if schema.is_recorded(key)}


def size_notes(composition: Composition, costs: dict[str, Costs]) -> dict[str, str]:
    """A note for each row whose parameters or FLOPs differ from base's, though it changes no key
    that a scale divides."""
    notes: dict[str, str] = {}
    if BASE not in costs:
        return notes
    divided = composition.schema.divided
    for row in composition.rows:
        if row.name != BASE and divided.keys().isdisjoint(row.changes):
            note = _size_note(costs.get(row.name, Costs()), costs[BASE])
            if note:
                notes[row.name] = note
    return notes


def _size_note(costs: Costs, base: Costs) -> str:
    """Such as "18 % fewer parameters and 19 % fewer FLOPs"; "" within the tolerance."""
    notes = [
        _difference(costs.params, base.params, "parameters"),
        _difference(costs.flops, base.flops, "FLOPs"),
    ]
    return " and ".join(note for note in notes if note)


def _difference(value: float | None, base_value: float | None, noun: str) -> str:
    if not value or not base_value:
        return ""
    change = value / base_value - 1
    if abs(change) <= TOLERANCE:
        return ""
    return f"{abs(change):.0%} {'more' if change > 0 else 'fewer'} {noun}"
