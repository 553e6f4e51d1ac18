"""What a row changes, in the symbols of its task and with the values after scaling."""

from typing import Any

from sweeps.planning.change_text import described, one_line
from sweeps.planning.composition import ComposedRow
from sweeps.planning.schema import Schema
from sweeps.planning.settings import Settings


def cells(row: ComposedRow, base: Settings) -> dict[str, Any]:
    """The row's cells in the table: its differences from base, and all values with a symbol for base itself."""
    schema, usual = Schema.of(base.source.task), _flat(base)
    if row.name == "base":
        return {schema.short(key): usual[schema.short(key)] for key in schema.symbols}
    return {name: value for name, value in _flat(row.settings).items() if value != usual[name]}


def shown_change(row: ComposedRow, base: Settings) -> str:
    """The row's own words for its change, unless the scale has made other values of it. Base is its values."""
    own = "" if row.name == "base" or row.before_scaling else one_line(row.settings.row.change)
    return own or describe(row, base) or row.name


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    return described(cells(row, base), Schema.of(base.source.task))


def _flat(settings: Settings) -> dict[str, Any]:
    """All that a row can vary, by short name. The seed is not part of a row's change, nor where data is fetched."""
    schema = Schema.of(settings.source.task)
    values = schema.values(settings.trial)
    return {schema.short(key): value for key, value in values.items() if schema.is_recorded(key)}
