"""Numbers at the axes of figures, the range of an axis, and times."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

UP = dict(zip("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", strict=True))


def counted(value: float) -> str:
    """500, 2k, 1.5M; powers of ten from 10⁹ on."""
    for unit, name in ((1e9, ""), (1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return powered(value) if not name else f"{value / unit:g}{name}"
    return f"{value:g}"


def powered(value: float) -> str:
    """10¹², 5·10¹¹."""
    digits, _, exponent = f"{value:.3e}".partition("e")
    ten = f"10{''.join(UP[digit] for digit in str(int(exponent)))}"
    return ten if float(digits) == 1 else f"{float(digits):g}·{ten}"


def label_ticks(axis: Any, write: Any) -> None:
    """Let this function write the numbers of an axis, without offsets, mathematics or minor numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    axis.set_minor_formatter(NullFormatter())


def place_costs(axes: Any, costs: Iterable[float]) -> None:
    """A few numbers along the x axis, which is logarithmic if positive costs differ by more than three times."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    known = list(costs)
    if min(known) <= 0 or max(known) <= 3 * min(known):
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
        return
    axes.set_xscale("log")
    decades = max(known) / min(known)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if decades > 1000 else (1.0, 2.0, 5.0)))
    axes.xaxis.set_minor_locator(NullLocator())


def late_range(values: Iterable[tuple[float, float]], last: float) -> tuple[float, float] | None:
    """The range of (step, value) in the second half, and as much again toward where training came from.

    Without the most extreme hundredth: the first steps, and a row that diverged, would press all other curves together.
    """
    known = list(values)
    late = sorted(value for step, value in known if step >= last / 2)
    if not late:
        return None
    low, high = late[len(late) // 100], late[-1 - len(late) // 100]
    span = high - low or 0.05 * abs(high) or 1.0
    early = [value for step, value in known if step < last / 2]
    top, bottom = max([high, *early]), min([low, *early])
    return max(bottom, low - span) - 0.06 * span, min(top, high + span) + 0.06 * span


def utc(ts: float) -> str:
    """Unix seconds as 2026-11-22 20:14 UTC."""
    return datetime.fromtimestamp(ts, UTC).strftime("%Y-%m-%d %H:%M UTC")
