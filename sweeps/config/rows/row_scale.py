"""How a scale changes a row: it divides widths, depth and steps, and keeps the row's differences
from base.

A scale divides only evenly. It may also set values, which become base's. If a row changes such a
value, a number stays in proportion to base, and text or a switch stays unchanged.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any, TypeGuard

from sweeps.config.schema import Schema, one_line
from sweeps.config.settings import Scale
from sweeps.problems import Problem
from sweeps.trees import Tree, differences


@dataclass(frozen=True)
class Layered:
    """One row from its files (``paper``), and with the scale's values on top (``scaled``)."""

    paper: Tree
    scaled: Tree


@dataclass
class Kept:
    """A row's differences in keys that the scale sets.

    ``values`` are the differences that changed in proportion to base. ``left_out`` are keys with a
    divisor of null.
    """

    values: Tree = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True)
class Replaced:
    """A row's difference that the scale's value replaced: ``row`` and ``base`` are at the paper's
    size."""

    key: str
    row: Any
    base: Any
    scale: Any


def keep_differences(row: Layered, base: Layered, scale: Scale, schema: Schema) -> Kept:
    """Restore the row's differences in ``row.scaled``.

    A key whose divisor is null is the same for every row.
    """
    result = Kept()
    for difference in _replaced_differences(row, base, schema.groups):
        key = difference.key
        divided = schema.divided.get(key)
        if divided and scale.divisors[divided.by] is None and _is_count(difference.row):
            result.left_out.append(key)
            continue
        value = _in_proportion(difference)
        if value is None or value == difference.scale:
            result.problems.append(_lost_difference(difference, scale.name))
            continue
        group, _, name = key.partition(".")
        row.scaled[group][name] = value
        if value != difference.row:
            result.values[key] = value
    return result


def _replaced_differences(row: Layered, base: Layered, groups: Iterable[str]) -> Iterator[Replaced]:
    """The row's differences from base that the scale's values replaced."""
    for key, value in differences(base.paper, row.paper, groups).items():
        group, _, name = key.partition(".")
        paper_group = base.paper[group]
        base_group = base.scaled.get(group)
        row_group = row.scaled.get(group)
        if not isinstance(base_group, dict) or not isinstance(row_group, dict):
            continue  # the schema refuses it
        in_base = name in paper_group and name in base_group
        if in_base and row_group.get(name) == base_group[name]:
            yield Replaced(key, value, paper_group[name], base_group[name])


def _in_proportion(difference: Replaced) -> Any:
    """The row's value ÷ base's × the scale's, exact in decimals; None if no such number exists.

    Values that are no numbers stay.
    """
    numbers = (difference.row, difference.base, difference.scale)
    if not all(_is_number(number) for number in numbers):
        return difference.row
    try:
        ratio = Fraction(str(difference.row)) / Fraction(str(difference.base))
        exact = ratio * Fraction(str(difference.scale))
    except ZeroDivisionError:
        return None
    except ValueError:  # infinite or not a number, which the schema refuses
        return difference.row
    if isinstance(difference.base, int) and isinstance(difference.scale, int):
        return int(exact) if exact.denominator == 1 else None
    return float(exact)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: Any) -> TypeGuard[int]:
    return _is_whole(value) and value > 0


def _lost_difference(difference: Replaced, scale: str) -> Problem:
    """Why a scale cannot keep the row's value, and what to do about it."""
    key = difference.key
    value = difference.row
    base = difference.base
    scaled = difference.scale
    other_scale = f"choose a scale that does not set {key}"
    are_whole = _is_whole(value) and _is_whole(base) and _is_whole(scaled)
    if are_whole and base and scaled:
        sizes = f"base has {base}, but {scaled} at scale {scale}"
        fault = f"is {value}, which does not scale to a whole number ({sizes})"
        factor = abs(base) // gcd(base, scaled)
        return Problem(key, fault, f"must be a multiple of {factor}, or {other_scale}")
    effect = f"at scale {scale} the row would not differ from base"
    fault = f"is {value}, but {effect}, which has {scaled}"
    return Problem(key, fault, f"remove it from the row, or {other_scale}")


def apply_scale(
    tree: Tree, scale: Scale, schema: Schema, changed: Collection[str] = ()
) -> list[Problem]:
    """Divide values in ``tree``, and return a problem for each that does not divide.

    ``changed`` are the keys in which a row differs from base: there the row's value is at fault,
    not the scale. The schema refuses values that are no positive whole numbers.
    """
    problems = []
    undivided: dict[str, list[str]] = {}
    for key, divided in schema.divided.items():
        group, _, name = key.partition(".")
        values = tree.get(group)
        value = values.get(name) if isinstance(values, dict) else None
        if not isinstance(values, dict) or not _is_count(value):
            continue
        divisor = scale.divisors[divided.by] or 1
        if value % divisor == 0:
            values[name] = value // divisor
        elif key in changed:
            fault = f"is {value}, which scale.{divided.by}={divisor} does not divide"
            allowed = f"must be a multiple of {divisor}, or choose another scale"
            problems.append(Problem(key, fault, allowed))
        else:
            undivided.setdefault(divided.by, []).append(f"{key}, which is {value}")
    for by, keys in undivided.items():
        fault = f"is {scale.divisors[by]}"
        problems.append(Problem(f"scale.{by}", fault, f"must divide {', '.join(keys)}"))
    return problems


def before_scaling(row: Layered, base: Layered, schema: Schema, own_keys: Iterable[str]) -> str:
    """The row's change at the paper's size: the words of its file, or its values in symbols.

    "" if scaling touches neither a difference from base nor a key in ``own_keys``, which the row's
    file sets.
    """
    changed = differences(base.paper, row.paper, schema.groups)
    scaled_keys = differences(row.paper, row.scaled, schema.groups).keys()
    if scaled_keys.isdisjoint({*changed, *own_keys}):
        return ""
    row_group = row.paper.get("row")
    words = row_group.get("change") if isinstance(row_group, dict) else None
    change = one_line(words) if isinstance(words, str) else ""
    return change or schema.described({schema.short(key): value for key, value in changed.items()})
