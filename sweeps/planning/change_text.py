"""Changed values as text, in the symbols of their task."""

from collections.abc import Mapping
from typing import Any

from sweeps.planning.schema import Schema


def described(values: Mapping[str, Any], schema: Schema) -> str:
    """Values by short name as text, such as "h 4, d_k = d_v = 16"."""
    if schema.task.words is not None:
        return schema.task.words(values)
    symbols = {schema.short(key): symbol for key, symbol in schema.symbols.items()}
    return ", ".join(f"{symbols.get(name, name)} {value}" for name, value in values.items())


def one_line(text: str) -> str:
    """The text with single blanks, without letters that cannot be printed."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
