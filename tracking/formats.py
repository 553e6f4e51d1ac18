"""Numbers as text for a table. None becomes the empty string; the caller explains why the number is missing."""

import math
from collections.abc import Mapping
from typing import Any


def number(value: float | None, places: int) -> str:
    """Fixed decimals; four significant digits for a huge value, such as the perplexity of a diverged run."""
    if value is None:
        return ""
    return f"{value:.3e}" if abs(value) >= 1e5 else f"{value:.{places}f}"


def stopped_at(result: Mapping[str, Any] | None) -> str:
    """Such as "stopped at 100 of 500", of a result whose training ended before its ``steps``; otherwise empty."""
    return f"stopped at {result['step']} of {result['steps']}" if result and result.get("steps") else ""


def signed(value: float | None, places: int) -> str:
    """With its sign, where minus is U+2212. Zero has no sign."""
    if value is None:
        return ""
    text = number(abs(value), places)
    if not any(digit in text for digit in "123456789"):
        return text
    return f"{'+' if value > 0 else '−'}{text}"


def spread(value: float, places: int) -> str:
    """A standard deviation: with as many decimals as its mean, or with the first one that is not 0."""
    return number(value, _least_places(value, places))


def signed_nonzero(value: float | None, places: int) -> str:
    """With its sign, and with enough decimals for one digit that is not 0."""
    return signed(value, places if value is None else _least_places(value, places))


def _least_places(value: float, places: int) -> int:
    """As many, unless the number would be 0."""
    if value == 0 or not math.isfinite(value) or round(abs(value), places):
        return places
    return min(-math.floor(math.log10(abs(value))), 12)


def millions(value: float | None) -> str:
    """Parameters: 63.046M, 0.412M."""
    return "" if value is None else f"{value / 1e6:.3f}M"


def size(count: float) -> str:
    """Bytes: 1.2 GB, 350 MB, 4.1 kB, 12 bytes."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return f"{count:g} byte{'s' * (count != 1)}"


def parameters(value: float | None) -> str:
    """The same; those of a small model in thousands or as they are: 4.810K, 626."""
    if value is None or value >= 1e5:
        return millions(value)
    return f"{value / 1e3:.3f}K" if value >= 1e3 else f"{value:.0f}"


def flops(value: float | None) -> str:
    """9.52e17."""
    return "" if value is None else f"{value:.2e}".replace("e+", "e")


def time(seconds: float | None) -> str:
    """12.3 s, 4 min 05 s, 3 h 20 min, 3 d 12 h."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, part, big, small in ((86400, 3600, "d", "h"), (3600, 60, "h", "min"), (60, 1, "min", "s")):
        if whole >= size:
            return f"{whole // size} {big} {whole % size // part:02d} {small}"
    raise AssertionError(seconds)
