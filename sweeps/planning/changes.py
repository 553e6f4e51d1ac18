"""What a row changes, in the paper's symbols and with the values after scaling."""

from typing import Any, assert_never

from sweeps.planning.compose import ComposedRow
from sweeps.planning.settings import Settings
from tracking.translation_card import TRANSLATION
from transformer.config import PositionKind

CELLS = TRANSLATION.symbols


def cells(row: ComposedRow, base: Settings) -> dict[str, Any]:
    """The row's cells in the table: its differences from base, and all values for base itself."""
    if row.name == "base":
        return {name: _value(row.settings, name) for name in CELLS}
    changed = _flat(row.settings)
    return {name: value for name, value in changed.items() if value != _flat(base)[name]}


def describe(row: ComposedRow, base: Settings) -> str:
    """The row's change as text, such as "h 4, d_k = d_v = 16"."""
    changed = cells(row, base)
    heads, positions = [], changed.pop("positions", None)
    if changed.get("d_k", 0) == changed.get("d_v", None):
        both = changed.pop("d_v")
        del changed["d_k"]
        heads = [f"d_k = d_v = {both}"]
    order = [name for name in (*CELLS, *changed) if name in changed]
    before = [
        _phrase(name, changed[name])
        for name in dict.fromkeys(order)
        if name in ("n_layers", "d_model", "d_ff", "n_heads")
    ]
    after = [
        _phrase(name, changed[name])
        for name in dict.fromkeys(order)
        if name not in ("n_layers", "d_model", "d_ff", "n_heads")
    ]
    return ", ".join([*before, *heads, *after, *([] if positions is None else [_positions(positions)])])


def _positions(kind: PositionKind) -> str:
    match kind:
        case "learned":
            return "learned positional embedding instead of sinusoids"
        case "sinusoids":
            return "sinusoids"
        case _:
            assert_never(kind)


def _flat(settings: Settings) -> dict[str, Any]:
    """All that a row can vary, by short name. The seed is not part of a row's change."""
    every = {**vars(settings.data), **vars(settings.model), **vars(settings.train), **vars(settings.decode)}
    return {name: value for name, value in every.items() if name not in ("seed", "mirror")}


def _value(settings: Settings, name: str) -> Any:
    return _flat(settings)[name]


def _phrase(name: str, value: Any) -> str:
    if name == "steps":
        return f"{value // 1000}K steps" if value % 1000 == 0 else f"{value} steps"
    return f"{CELLS.get(name, name)} {value}"
