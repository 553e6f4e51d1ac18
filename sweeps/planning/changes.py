"""What a row changes, in the paper's symbols and with the values after scaling."""

from typing import Any

from sweeps.planning.change_text import described, one_line
from sweeps.planning.composition import ComposedRow
from sweeps.planning.settings import Settings
from tracking.columns import CELLS


def cells(row: ComposedRow, base: Settings) -> dict[str, Any]:
    """The row's cells in the table: its differences from base, and all values for base itself."""
    if row.name == "base":
        return {name: _flat(row.settings)[name] for name in CELLS}
    usual = _flat(base)
    return {name: value for name, value in _flat(row.settings).items() if value != usual[name]}


def shown_change(row: ComposedRow, base: Settings) -> str:
    """The row's own words for its change, unless the scale has made other values of it. Base is its values."""
    own = "" if row.name == "base" or row.at_paper_size else one_line(row.settings.row.change)
    return own or describe(row, base)


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    return described(cells(row, base))


def _flat(settings: Settings) -> dict[str, Any]:
    """All that a row can vary, by short name. The seed is not part of a row's change."""
    every = {**vars(settings.data), **vars(settings.model), **vars(settings.train), **vars(settings.decode)}
    return {name: value for name, value in every.items() if name not in ("seed", "mirror")}
