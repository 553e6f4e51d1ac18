"""The runs of a source as a table: a line per run, a column per name, before anybody knows what a
column is for."""

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, TypeGuard

from tracking.uri import without_password

Value = bool | int | float | str | None
"""Of a cell; None where it is empty."""
EMPTY = ("", "none", "null", "<na>", "n/a")
NAN = math.nan
"""One object, since it equals nothing but itself by identity."""
PERCENT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)\s*%")
"""90.1% is 90.1."""
SEED_TEXT = re.compile(r"\D*(\d{1,18})")
DECIMAL_COMMA = re.compile(r"([+-]?\d*),(\d+(?:[eE][+-]?\d+)?\s*%?)")
BOOLEANS = {"true": True, "false": False}
VERSION = re.compile(r"(?:.*[^a-z])?(?:versions?|python|torch|cuda|commit|sha|hash)", re.I)
"""The name of a column whose values are texts: version 3.10 is not 3.1."""
LONGEST_NUMBER = 40
"""Characters: a longer row of digits is a hash, not a number."""


class CurvePoint(NamedTuple):
    """One value of a metric over time. ``ts`` in Unix seconds."""

    ts: float
    step: int
    value: float


Curves = Mapping[str, Sequence[CurvePoint]]
"""By column, the oldest point first."""


@dataclass(frozen=True)
class SourceTable:
    """``read_curve`` takes the place of a line and a column; None where a source has no curves."""

    source: str
    name: str  # for the study, if nobody names it
    columns: tuple[str, ...]
    lines: tuple[Mapping[str, Value], ...]
    read_curve: Callable[[int, str], Sequence[CurvePoint]] | None = None

    def values(self, column: str) -> list[Value]:
        """Those that are not empty, and not NaN."""
        cells = [line.get(column) for line in self.lines]
        return [cell for cell in cells if cell is not None and cell is not NAN]

    def curves(self, place: int, columns: Sequence[str]) -> dict[str, Sequence[CurvePoint]]:
        """Of the run in this line. A score that was logged once is a curve of one point."""
        if self.read_curve is None:
            return {}
        curves = {column: self.read_curve(place, column) for column in columns}
        return {column: points for column, points in curves.items() if points}


@dataclass(frozen=True)
class ImportFault:
    """Why the runs cannot be imported: what a person typed, what is wrong, and what is allowed."""

    key: str
    fault: str
    allowed: str
    nearest: str | None = None


class ImportRefusedError(Exception):
    """Every fault of an import."""

    def __init__(self, faults: Sequence[ImportFault]) -> None:
        super().__init__("; ".join(f"{fault.key} {fault.fault}" for fault in faults))
        self.faults = tuple(faults)


def refused(key: str, fault: str, allowed: str, nearest: str | None = None) -> ImportRefusedError:
    """The refusal of a single fault."""
    return ImportRefusedError([ImportFault(key, fault, allowed, nearest)])


def nearest_name(text: str, names: Sequence[str]) -> str | None:
    """What a person may have meant to type; None if no name is like it."""
    return next(iter(get_close_matches(text, names, 1, 0.5)), None)


def cell_value(text: str) -> Value:
    """The text as a truth value, a number or a text. None and the like are empty."""
    plain = text.strip()
    if plain.lower() in EMPTY:
        return None
    if plain.lower() in BOOLEANS:
        return BOOLEANS[plain.lower()]
    if len(plain) > LONGEST_NUMBER or "_" in plain:
        return plain
    number = plain.removesuffix("%") if PERCENT.fullmatch(plain) else plain
    for kind in (int, float):
        try:
            value = kind(number)
        except ValueError:
            continue
        return NAN if math.isnan(value) else value
    return plain


def named_value(column: str, text: str) -> Value:
    """The text of a cell in this column as a truth value, a number or a text."""
    value = cell_value(text)
    is_text = is_number(value) and VERSION.fullmatch(column) is not None
    return text.strip() if is_text else value


def with_decimal_point(text: str) -> str:
    """0.5 of 0,5."""
    return DECIMAL_COMMA.sub(r"\1.\2", text) if DECIMAL_COMMA.fullmatch(text.strip()) else text


def shown_path(path: Path) -> str:
    """The whole path, by which a source is known again: ~ for the home folder, no secrets."""
    whole = path.expanduser().resolve()
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 - Path raises without a home
    in_home = home != Path("/") and whole.is_relative_to(home)
    return without_password(f"~/{whole.relative_to(home)}" if in_home else str(whole))


def finite_or_text(value: Value) -> Value:
    """A number that is not finite as a text: inf, -inf or nan."""
    is_infinite = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_infinite else value


def is_number(value: Value) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def whole_number(value: Value) -> int | None:
    """1 of 1, "1" and 1.0, as pandas writes it in a column with gaps; None of anything else."""
    return int(value) if is_number(value) and float(value).is_integer() else None


def seed_number(value: Value) -> int | None:
    """1 of 1, s1 and seed=1; None without a number, or with several."""
    if isinstance(value, str) and (digits := SEED_TEXT.fullmatch(value.strip())):
        return int(digits[1])
    return whole_number(value)


def is_typed(value: Value, typed: str) -> bool:
    """Whether this text means the value: 1 and 1.0 mean 1."""
    return value_text(value) == typed or value == cell_value(typed)


def value_text(value: Value) -> str:
    """As a person reads it: a whole number without a point, a truth value as in YAML."""
    if isinstance(value, bool):
        return str(value).lower()
    whole = whole_number(value)
    if whole is not None and isinstance(value, float):
        return str(whole)
    return "not set" if value is None else str(value)
