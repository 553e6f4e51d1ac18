"""The value that was probably meant: 100000 for ``100k``, true for ``yes``. Only offered, never taken."""

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

SWITCHES = {True: ("true", "yes", "on", "y", "t", "1"), False: ("false", "no", "off", "n", "f", "0")}
FACTORS = {"": Decimal(1), "k": Decimal(1_000), "m": Decimal(1_000_000), "%": Decimal("0.01")}
NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d{1,2})?)([km%]?)", re.IGNORECASE)
LONGEST = 40  # characters of a number that anybody types


def meant_value(kind: Any, value: Any) -> Iterator[Any]:
    """Values of a plain ``kind`` that ``value`` may stand for."""
    if kind is bool:
        yield from (switch for switch, words in SWITCHES.items() if str(value).casefold() in words)
    elif kind is str and isinstance(value, int | float):
        yield str(value)
    elif kind in (int, float) and (number := _number(value)) is not None:
        if kind is float:
            yield float(number)
        elif number == int(number):
            yield int(number)


def _number(value: Any) -> Decimal | None:
    """A number written as 1e5, 100k, 100 000 or 10%."""
    text = str(value).strip()
    if isinstance(value, bool) or len(text) > LONGEST:
        return None
    found = NUMBER.fullmatch(re.sub(r"(?<=\d)[ _'](?=\d{3}(?!\d))", "", text))
    try:
        return Decimal(found[1]) * FACTORS[found[2].casefold()] if found else None
    except InvalidOperation:
        return None
