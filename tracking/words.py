"""Numbers, times and lists as text for people; and lists by what their items share.

A number that is None becomes the empty string; the caller explains why it is missing."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MORE_PLACES = 2
"""Further decimals that a small number may have before it gets an exponent."""
UNKNOWN_STEP = "ended at an unknown step"


def number(value: float | None, places: int) -> str:
    """Fixed decimals, or four significant digits for a huge value such as the perplexity of a
    diverged run.

    Only 0 itself becomes 0: a value that would round to 0 gets further decimals, or two significant
    digits.
    """
    if value is None:
        return ""
    if abs(value) >= 1e5:
        return f"{value:.3e}"
    is_hidden = value != 0 and round(abs(value), places) == 0
    return _small(value, places) if is_hidden else f"{value:.{places}f}"


def _small(value: float, places: int) -> str:
    """Such as 0.003, or 9.7e−11 for a value that needs many zeros."""
    needed = -math.floor(math.log10(abs(value)))
    if needed <= places + MORE_PLACES:
        return f"{value:.{needed}f}"
    return f"{value:.1e}".replace("e-", "e−")


def stopped_at(result: Mapping[str, Any] | None) -> str:
    """Such as "stopped at 100 of 500" for a result whose training ended before its ``steps``, or
    "diverged at step 40"; otherwise empty."""
    if result is None:
        return ""
    if result.get("diverged") is not None:
        step = result["diverged"]
        return f"diverged at step {step}" if step else "diverged"  # 0: no step is known
    if not result.get("steps"):
        return ""
    if known_step(result) is None:
        return UNKNOWN_STEP
    return f"stopped at {result['step']} of {result['steps']}"


def known_step(result: Mapping[str, Any]) -> int | None:
    """The step at which a trial ended; None if it reported and saved none of its ``steps``."""
    step: int | None = result.get("step")
    return None if result.get("steps") and not step else step


LONGEST_VALUE = 60  # characters of one value in a table
LONGEST_CHANGE = 200  # characters of a row's own words
LOOKS_LIKE_NO_TEXT = ("None", "True", "False")


def shortened(text: str, longest: int = LONGEST_VALUE) -> str:
    """The text, or its beginning and its length if it is too long for a table."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}… ({len(text)} characters)"


def cell_text(value: Any) -> str:
    """A value in a table. The text "None" gets quotes, since None itself has none."""
    return shortened(repr(value) if value in LOOKS_LIKE_NO_TEXT else str(value))


def trial_name(row: str, seed: int | str) -> str:
    """The name of a trial, and of its folder: base-s1."""
    return f"{row}-s{seed}"


def row_and_seed(trial: str) -> tuple[str, str]:
    """The row and the seed of a trial's name."""
    row, _, seed = trial.rpartition("-s")
    return row, seed


def plural(noun: str, count: float) -> str:
    """The noun for this many: seed, seeds."""
    return noun if count == 1 else f"{noun}s"


def count_of(number: int, noun: str) -> str:
    """Such as 1 seed, 3 seeds."""
    return f"{number} {plural(noun, number)}"


def seeds_listed(seeds: Sequence[int]) -> str:
    """Such as seed 2, or seeds 1, 2, 5."""
    return f"{plural('seed', len(seeds))} {', '.join(map(str, seeds))}"


def ranges(numbers: Sequence[int], prefix: str = "") -> str:
    """Such as 3, or 1, 2, 5, or 1 to 4, 7; with the prefix s: s1 to s4, s7.

    ``numbers`` ascend. Only three in a row or more make a range.
    """
    parts = list[str]()
    for run in _runs(numbers):
        names = [f"{prefix}{number}" for number in run]
        parts += names if len(run) < 3 else [f"{names[0]} to {names[-1]}"]
    return ", ".join(parts)


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    """The numbers, split where the next one is not larger by 1."""
    runs = list[list[int]]()
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key; both in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def listed(names: Sequence[str]) -> str:
    """A, B and C."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def spanned(counts: Collection[int]) -> str:
    """Such as 3, or 3 to 9."""
    least = min(counts)
    most = max(counts)
    return str(least) if least == most else f"{least} to {most}"


def signed(value: float | None, places: int) -> str:
    """With its sign, where minus is U+2212. Zero has no sign."""
    if value is None:
        return ""
    text = number(abs(value), places)
    if value == 0:
        return text
    sign = "+" if value > 0 else "−"
    return sign + text


def millions(value: float | None) -> str:
    """Parameters: 63.046M, 0.412M."""
    return "" if value is None else f"{value / 1e6:.3f}M"


def parameters(value: float | None) -> str:
    """Parameters in millions; those of a small model in thousands or as they are: 4.810K, 626."""
    if value is None or value >= 1e5:
        return millions(value)
    return f"{value / 1e3:.3f}K" if value >= 1e3 else f"{value:.0f}"


def flops(value: float | None) -> str:
    """Such as 9.52e17."""
    if value is None:
        return ""
    return f"{value:.2e}".replace("e+", "e") if value else "0"


SUSTAINED_BY = {"typed": "typed", "table": "from the task's table", "measured": "measured"}


def sustained(result: Mapping[str, Any]) -> str:
    """Where the rate that a device sustains comes from, such as "measured, fp32, 1 thread"."""
    rate = result["sustained"]
    threads = rate.get("threads")
    words = [SUSTAINED_BY.get(rate["source"], rate["source"]), rate.get("precision")]
    if threads:
        words.append("1 thread" if threads == 1 else f"{threads} threads")
    return ", ".join(word for word in words if word)


def percent(share: float | None) -> str:
    """Such as 38.3%, of 0.383."""
    return "" if share is None else f"{100 * share:.3g}%"


def time(seconds: float | None) -> str:
    """12.3 s, 4 min 05 s, 3 h 20 min, 3 d 12 h."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour:02d} h"
    if hours:
        return f"{hours} h {minute:02d} min"
    return f"{minutes} min {second:02d} s"


def without_study(names: Iterable[str]) -> dict[str, str]:
    """Maps each name, such as "multi30k-half/base-s1", to the one to show: "base-s1" if all trials
    are of one study."""
    parts = {name: name.rpartition("/") for name in names}
    if len({study for study, _, _ in parts.values()}) > 1:
        return {name: name for name in parts}
    return {name: trial for name, (_, _, trial) in parts.items()}
