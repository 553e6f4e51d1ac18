"""What a row changes, in the paper's own symbols and with the values after scaling."""

from typing import Any, assert_never

from sweeps.planning.compose import ComposedRow
from sweeps.planning.settings import Settings
from tracking.columns import CELLS
from transformer.config import PositionKind


def cells(row: ComposedRow, base: Settings) -> dict[str, Any]:
    """The cells of the row's line in the table: what differs from base, and for base itself everything."""
    if row.name == "base":
        return {name: _value(row.settings, name) for name in CELLS}
    changed = _flat(row.settings)
    return {name: value for name, value in changed.items() if value != _flat(base)[name]}


def describe(row: ComposedRow, base: Settings) -> str:
    """Such as "h 4, d_k = d_v = 16"."""
    changed = cells(row, base)
    words, positions = [], changed.pop("positions", None)
    if changed.get("d_k", 0) == changed.get("d_v", None):
        both = changed.pop("d_v")
        del changed["d_k"]
        words = [f"d_k = d_v = {both}"]
    order = [name for name in (*CELLS, *changed) if name in changed]
    before = [
        _word(name, changed[name])
        for name in dict.fromkeys(order)
        if name in ("n_layers", "d_model", "d_ff", "n_heads")
    ]
    after = [
        _word(name, changed[name])
        for name in dict.fromkeys(order)
        if name not in ("n_layers", "d_model", "d_ff", "n_heads")
    ]
    return ", ".join([*before, *words, *after, *([] if positions is None else [_positions(positions)])])


def _positions(kind: PositionKind) -> str:
    match kind:
        case "learned":
            return "learned positional embedding instead of sinusoids"
        case "sinusoids":
            return "sinusoids"
        case _:
            assert_never(kind)


def _flat(settings: Settings) -> dict[str, Any]:
    """What a row of the table can vary, by its short name; the seed is not a change of the row."""
    every = {**vars(settings.data), **vars(settings.model), **vars(settings.train), **vars(settings.decode)}
    return {name: value for name, value in every.items() if name not in ("seed", "mirror")}


def _value(settings: Settings, name: str) -> Any:
    return _flat(settings)[name]


def _word(name: str, value: Any) -> str:
    if name == "steps":
        return f"{value // 1000}K steps" if value % 1000 == 0 else f"{value} steps"
    return f"{CELLS.get(name, name)} {value}"
