"""What a row changes, in the symbols of its task and with the values after scaling; and a row that changes nothing."""

from typing import Any

from sweeps.config.folders import BASE
from sweeps.config.schema import Schema, one_line
from sweeps.config.settings import Settings
from sweeps.planning.composition import ComposedRow
from sweeps.schema import Problem


def cells(row: ComposedRow, base: Settings) -> dict[str, Any]:
    """The row's cells in the table: its differences from base, and all values with a symbol for base itself."""
    schema, usual = Schema.of(base.source.task), _flat(base)
    if row.name == BASE:
        return {schema.short(key): usual[schema.short(key)] for key in schema.symbols}
    return {name: value for name, value in _flat(row.settings).items() if value != usual[name]}


def shown_change(row: ComposedRow, base: Settings) -> str:
    """The row's own words for its change, unless the scale has made other values of it. Base is its values."""
    own = "" if row.name == BASE or row.before_scaling else one_line(row.settings.row.change)
    return own or describe(row, base) or row.name


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    return Schema.of(base.source.task).described(cells(row, base))


def like_base(row: ComposedRow, base: Settings) -> Problem | None:
    """The refusal of a user's own row that trains the same model as base: what it changes instead."""
    schema = Schema.of(base.source.task)
    ours, theirs = schema.values(row.settings.trial), schema.values(base.trial)
    trained = [key for key in ours if key not in schema.scores]
    if row.name == BASE or row.place is None or any(ours[key] != theirs[key] for key in trained):
        return None
    if decodes := [key for key in row.changes if key in schema.scores]:
        settings = " ".join(f"{key}={row.changes[key]}" for key in decodes)
        found = f"changes only {', '.join(decodes)}, so row {row.name} would train the same model as base"
        return Problem(decodes[0], found, f"score all rows in that way: {settings}", None, row.place)
    if row.kept.left_out:
        found = f"changes only {', '.join(row.kept.left_out)}, which the scale sets for every row"
        return Problem(row.name, found, "choose another scale, which leaves them to the rows", None, row.place)
    allowed = f"set a key of {' or '.join(schema.groups)} to another value than base's; `allelse config` shows base"
    return Problem(row.name, "would train the same model as base: it changes nothing", allowed, None, row.place)


def _flat(settings: Settings) -> dict[str, Any]:
    """All that a row can vary, by short name. The seed is not part of a row's change, nor where data is fetched."""
    schema = Schema.of(settings.source.task)
    values = schema.values(settings.trial)
    return {schema.short(key): value for key, value in values.items() if schema.is_recorded(key)}
