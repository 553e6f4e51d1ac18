"""A scale shrinks all rows equally, and each row keeps its difference from base.

The scale divides widths, depth and steps, which must divide evenly. It may also set values, which become base's.
A row that changes such a value keeps a number in proportion to base, and text or a switch unchanged.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd
from typing import Any, TypeGuard

from sweeps.config.schema import Schema, one_line
from sweeps.config.settings import Scale
from sweeps.schema import Problem, Tree, differences


@dataclass(frozen=True)
class Layered:
    """One row from its files (``paper``), and with the scale's values on top (``scaled``)."""

    paper: Tree
    scaled: Tree


@dataclass
class Kept:
    """What became of a row's differences in keys that the scale sets."""

    values: Tree = field(default_factory=dict)  # in proportion to base
    left_out: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def keep_differences(row: Layered, base: Layered, scale: Scale, schema: Schema) -> Kept:
    """Restore the row's differences in ``row.scaled``. A key whose divisor is null is the same for every row."""
    kept, undivided = Kept(), [key for key, by in schema.divided.items() if scale.divisors[by.by] is None]
    for key, value, was, now in _taken(row, base, schema.groups):
        group, name = key.split(".")
        if key in undivided and _is_count(value):
            kept.left_out.append(key)
            continue
        found = _in_proportion(value, was, now)
        if found is None or found == now:
            kept.problems.append(_vanishes(key, value, was, now, scale.name))
            continue
        row.scaled[group][name] = found
        if found != value:
            kept.values[key] = found
    return kept


def apply_scale(tree: Tree, scale: Scale, schema: Schema, changed: Collection[str] = ()) -> list[Problem]:
    """Divide in place; returns what does not divide. The schema refuses values that are no positive whole numbers.

    ``changed`` are the keys by which a row differs from base: there the row's value is the fault, not the scale's.
    """
    problems, undivided = [], dict[str, list[str]]()
    for key, role in schema.divided.items():
        group, _, inner = key.partition(".")
        name, values, divisor = role.by, tree.get(group), scale.divisors[role.by] or 1
        if not isinstance(values, dict) or not _is_count(value := values.get(inner)):
            continue
        if value % divisor == 0:
            values[inner] = value // divisor
        elif key in changed:
            found = f"is {value}, which scale.{name}={divisor} does not divide"
            problems.append(Problem(key, found, f"must be a multiple of {divisor}, or choose another scale"))
        else:
            undivided.setdefault(name, []).append(f"{key}, which is {value}")
    for name, keys in undivided.items():
        problems.append(Problem(f"scale.{name}", f"is {scale.divisors[name]}", f"must divide {', '.join(keys)}"))
    return problems


def before_scaling(row: Layered, base: Layered, schema: Schema, own: Iterable[str]) -> str:
    """The row's change at the paper's size: its own words, or its values in symbols.

    "" if scaling touches neither a difference nor another key that its ``own`` file sets.
    """
    changed = differences(base.paper, row.paper, schema.groups)
    if differences(row.paper, row.scaled, schema.groups).keys().isdisjoint({*changed, *own}):
        return ""
    words = row.paper["row"].get("change") if isinstance(row.paper.get("row"), dict) else None
    short = {schema.short(key): value for key, value in changed.items()}
    return (one_line(words) if isinstance(words, str) else "") or schema.described(short)


def _taken(row: Layered, base: Layered, groups: Iterable[str]) -> Iterator[tuple[str, Any, Any, Any]]:
    """Each key in which the row differs from base until the scale sets it, with the values of row, base and scale."""
    for group in groups:
        trees = [tree.get(group) for tree in (row.paper, base.paper, row.scaled, base.scaled)]
        paper, base_paper, scaled, base_scaled = (tree if isinstance(tree, dict) else {} for tree in trees)
        for name, value in paper.items():
            if name not in base_paper or name not in base_scaled or value == base_paper[name]:
                continue
            if scaled.get(name) == base_scaled[name]:
                yield f"{group}.{name}", value, base_paper[name], base_scaled[name]


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _in_proportion(value: Any, was: Any, now: Any) -> Any:
    """``value`` / ``was`` × ``now``, exact in decimals; None if no such number exists. Other values stay."""
    numbers = (value, was, now)
    if any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        return value
    try:
        exact = Fraction(str(value)) / Fraction(str(was)) * Fraction(str(now))
    except ZeroDivisionError:
        return None
    except ValueError:  # infinite or not a number, which the schema refuses
        return value
    if isinstance(was, int) and isinstance(now, int):
        return int(exact) if exact.denominator == 1 else None
    return float(exact)


def _vanishes(key: str, value: Any, was: Any, now: Any, scale: str) -> Problem:
    """Why a scale cannot keep the row's value, and what to do about it."""
    elsewhere = f"choose a scale that does not set {key}"
    numbers = all(isinstance(number, int) and not isinstance(number, bool) for number in (value, was, now))
    if numbers and was and now:
        found = f"is {value}, which does not scale to a whole number (base has {was}, but {now} at scale {scale})"
        return Problem(key, found, f"must be a multiple of {abs(was) // gcd(was, now)}, or {elsewhere}")
    found = f"is {value}, but at scale {scale} the row would not differ from base, which has {now}"
    return Problem(key, found, f"remove it from the row, or {elsewhere}")
