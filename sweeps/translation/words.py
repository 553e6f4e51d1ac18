"""A row's change in the paper's words."""

from collections.abc import Mapping
from typing import Any

from tracking.translation_card import TRANSLATION

SYMBOLS = TRANSLATION.symbols
ARCHITECTURE = ("n_layers", "d_model", "d_ff", "n_heads")
POSITIONS = {"learned": "learned positional embedding instead of sinusoids"}


def described(values: Mapping[str, Any]) -> str:
    """Values by short name as text, such as "h 4, d_k = d_v = 16"."""
    changed, heads = dict(values), []
    positions = changed.pop("positions", None)
    if {"d_k", "d_v"} <= changed.keys() and changed["d_k"] == changed["d_v"]:
        del changed["d_k"]
        heads = [f"d_k = d_v = {changed.pop('d_v')}"]
    order = [name for name in (*SYMBOLS, *changed) if name in changed]
    before = [_phrase(name, changed[name]) for name in dict.fromkeys(order) if name in ARCHITECTURE]
    after = [_phrase(name, changed[name]) for name in dict.fromkeys(order) if name not in ARCHITECTURE]
    last = [] if positions is None else [POSITIONS.get(str(positions), str(positions))]
    return ", ".join([*before, *heads, *after, *last])


def _phrase(name: str, value: Any) -> str:
    if name == "steps" and isinstance(value, int):
        return f"{value // 1000}K steps" if value % 1000 == 0 else f"{value} steps"
    return f"{SYMBOLS.get(name, name)} {value}"
