"""The paper's columns and symbols, for a row's changes, its scores and its decode settings."""

from collections.abc import Mapping
from typing import Any

CELLS = {  # the paper's columns
    "n_layers": "N",
    "d_model": "d_model",
    "d_ff": "d_ff",
    "n_heads": "h",
    "d_k": "d_k",
    "d_v": "d_v",
    "p_drop": "P_drop",
    "label_smoothing": "ε_ls",
    "steps": "steps",
}
SCORES = {"ppl": 2, "bleu": 1}  # the decimals that the paper prints
DECODE = {"beam": "beam", "alpha": "α"}


def setting_cells(cells: Mapping[str, object]) -> list[str]:
    """A row's changes in the columns of CELLS; an unchanged cell is empty."""
    return ["" if cells.get(name) is None else str(cells[name]) for name in CELLS]


def other_changes(cells: Mapping[str, object]) -> str:
    """The changes without a column, in words."""
    return ", ".join(_words(name, value) for name, value in cells.items() if name not in CELLS)


def paper_size_note(changes: Mapping[str, str]) -> str:
    """What rows are before scaling, by name: it explains names such as c_layers_2. Empty without rows."""
    words = "; ".join(f"{row} is {change}" for row, change in changes.items())
    return f"At the paper's size {words}." if words else ""


def decode_words(decode: Mapping[str, Any]) -> list[str]:
    """The settings of `decode` in the paper's symbols."""
    words = [f"{symbol} {decode[name]}" for name, symbol in DECODE.items() if name in decode]
    average = decode.get("average_checkpoints")
    if average is not None:
        words.append("last checkpoint" if average == 1 else f"mean of the last {average} checkpoints")
    return words


def _words(name: str, value: object) -> str:
    return f"{value} positional embedding" if name == "positions" else f"{name} {value}"
