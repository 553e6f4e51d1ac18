"""Fields of dataclasses that state what they allow and what they are for; and plain data turned
into them.

``Annotated[int, Range(1)]`` and ``Literal["fp32", "bf16"]`` state what a field allows. A role such
as ``Scores()`` says what it is for; a field without one decides what is trained. A field that was
added later carries ``Neutral(value)``: what older configurations without it mean.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeGuard,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sweeps.problems import UNKNOWN_KEY, Problem, Typo
from sweeps.type_words import type_words, value_words

T = TypeVar("T")
Role = TypeVar("Role")


def field_types(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields, with everything that ``Annotated`` adds."""
    return _field_types(cls)  # mypy takes no generic class as hashable


@cache
def _field_types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def role_of(hint: Any, role: type[Role]) -> Role | None:
    """The role of this class that ``Annotated`` adds to a field's type; None without one."""
    metadata = getattr(hint, "__metadata__", ())
    return next((entry for entry in metadata if isinstance(entry, role)), None)


def fields_with(schema: type, role: type[Role]) -> dict[str, Role]:
    """The dotted keys of a schema of groups whose fields have this role."""
    roles: dict[str, Role] = {}
    for group, group_type in field_types(schema).items():
        if not _is_schema(group_type):
            continue
        for name, hint in field_types(group_type).items():
            field_role = role_of(hint, role)
            if field_role is not None:
                roles[f"{group}.{name}"] = field_role
    return roles


def _is_schema(hint: Any) -> TypeGuard[type]:
    """Whether this is a dataclass, and not an instance of one."""
    return is_dataclass(hint) and isinstance(hint, type)


@dataclass(frozen=True)
class Neutral:
    """The value with which the code does what it did before the field existed."""

    value: Any


def neutral_values(cls: type) -> dict[str, Any]:
    """The neutral values of a flat dataclass, by field."""
    roles = {name: role_of(hint, Neutral) for name, hint in field_types(cls).items()}
    return {name: neutral.value for name, neutral in roles.items() if neutral}


def settled(settings: Any) -> dict[str, Any]:
    """The fields of a flat dataclass, without those at their neutral value.

    Older versions of the dataclass agree on the rest.
    """
    neutral = neutral_values(type(settings))
    values = {name: getattr(settings, name) for name in field_types(type(settings))}
    return {
        name: value
        for name, value in values.items()
        if name not in neutral or value != neutral[name]
    }


def added_later(settings: Any) -> dict[str, Any]:
    """The later-added fields whose value differs from the neutral one."""
    neutral = neutral_values(type(settings))
    return {name: value for name, value in settled(settings).items() if name in neutral}


@dataclass(frozen=True)
class Scores:
    """The field only affects how a trained model is scored. A new value scores trials again."""


@dataclass(frozen=True)
class Observes:
    """The field only affects how training is watched and saved."""


@dataclass(frozen=True)
class Fingerprinted:
    """The field is part of the data fingerprint. The trial key contains the fingerprint instead of
    the field.

    ``place``: it only locates the data, and may differ between machines. ``lasting``: a study
    records it.
    """

    place: bool = False
    lasting: bool = True


@dataclass(frozen=True)
class Seed:
    """The field is the trial's seed, which a sweep sets."""


@dataclass(frozen=True)
class Symbol:
    """How tables name the field."""

    text: str


@dataclass(frozen=True)
class OtherNames:
    """What other programs call the field, separated by spaces. Hints use these names to find the
    field.

    ``note`` says how the field differs from what these names mean.
    """

    text: str
    note: str = ""


@dataclass(frozen=True)
class Named:
    """The field maps these names to values of one type. They need not be valid in Python."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Divided:
    """A scale divides the field by its divisor ``by``; an ``optional`` divisor may be null."""

    by: str
    optional: bool = False


@dataclass(frozen=True)
class Range:
    """Bounds of a number. ``below`` excludes the upper bound, ``above`` the lower one."""

    low: float = -math.inf
    high: float = math.inf
    below: bool = False
    above: bool = False

    def holds(self, value: float) -> bool:
        is_high_enough = value > self.low if self.above else value >= self.low
        is_low_enough = value < self.high if self.below else value <= self.high
        return is_high_enough and is_low_enough

    def __str__(self) -> str:
        low = f"{self.low:.10g}"
        high = f"{self.high:.10g}"
        if math.isinf(self.high):
            return f"above {low}" if self.above else f"of at least {low}"
        if self.below:
            return f"of at least {low} and below {high}"
        return f"between {low} and {high}"


def parse(cls: type[T], tree: object, prefix: str = "") -> tuple[T | None, list[Problem]]:
    """Build the dataclass ``cls`` from nested plain data, or return every problem with it."""
    if not isinstance(tree, Mapping):
        return None, [Problem(prefix or "configuration", f"is {tree!r}", "must be a group of keys")]
    fields_by_name = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    hints = field_types(cls)
    unknown_keys = [str(key) for key in tree if key not in fields_by_name]
    problems = [_unknown_key(prefix, key, fields_by_name) for key in unknown_keys]
    values: dict[str, Any] = {}
    for name, field in fields_by_name.items():
        key = _join(prefix, name)
        if name in tree:
            values[name], field_problems = _value(hints[name], tree[name], key)
            problems += field_problems
        elif neutral := role_of(hints[name], Neutral):
            values[name] = neutral.value
        elif field.default is MISSING and field.default_factory is MISSING:
            problems.append(Problem(key, "is missing", "must be given"))
    return (cls(**values), []) if not problems else (None, problems)


def _mapping(names: Named, hint: Any, tree: object, prefix: str) -> tuple[Any, list[Problem]]:
    """The values of a ``Named`` field, each of the type ``hint``, or every problem with them."""
    if not isinstance(tree, Mapping):
        return None, [Problem(prefix, f"is {value_words(tree)}", "must be a group of keys")]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in tree.items():
        if key not in names.names:
            problems.append(_unknown_key(prefix, str(key), names.names))
            continue
        values[key], value_problems = _value(hint, value, _join(prefix, key))
        problems += value_problems
    return (values, []) if not problems else (None, problems)


def keys(cls: type, prefix: str = "") -> dict[str, Any]:
    """Every dotted leaf key that ``cls`` allows, with its type without rules."""
    hints = get_type_hints(cls)
    types: dict[str, Any] = {}
    for field in fields(cls):
        key = _join(prefix, field.name)
        hint = hints[field.name]
        if _is_schema(hint):
            types |= keys(hint, key)
        elif names := role_of(field_types(cls)[field.name], Named):
            value_type = get_args(hint)[1]
            types |= {_join(key, name): value_type for name in names.names}
        else:
            types[key] = hint
    return types


def is_text(hint: Any) -> bool:
    """Whether all values of this type, but None, are texts."""
    if get_origin(hint) is Literal:
        return all(isinstance(value, str | None) for value in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return all(option is NoneType or is_text(option) for option in get_args(hint))
    return hint is str


def _unknown_key(prefix: str, key: str, allowed: Iterable[str]) -> Problem:
    """The refusal of a key below ``prefix`` that the schema lacks."""
    group = f"under {prefix} " if prefix else ""
    return Problem(
        key=_join(prefix, key),
        found=UNKNOWN_KEY,
        allowed=f"keys {group}are {', '.join(allowed)}",
        nearest=Typo(key, tuple(allowed), prefix=_join(prefix, "")),
    )


def _value(hint: Any, value: Any, key: str) -> tuple[Any, list[Problem]]:
    """The value of a field of this type, or its problems."""
    if _is_schema(hint):
        return parse(hint, value, key)
    if names := role_of(hint, Named):
        mapping_type = get_args(hint)[0]
        return _mapping(names, get_args(mapping_type)[1], value, key)
    rules: list[Range] = []
    if get_origin(hint) is Annotated:
        hint, *metadata = get_args(hint)
        rules = [entry for entry in metadata if isinstance(entry, Range)]
    converted, fits = _convert(hint, value)
    if fits and (converted is None or all(rule.holds(converted) for rule in rules)):
        return converted, []
    allowed = f"must be {type_words(hint, rules)}"
    return converted, [Problem(key, f"is {value_words(value)}", allowed, _near_value(hint, value))]


def _near_value(hint: Any, value: Any) -> str | Typo | None:
    """An allowed value that looks like this one, such as [1] for 1 where a list is needed."""
    if not isinstance(value, list | dict):
        _, fits_in_list = _convert(hint, [value])
        if fits_in_list:
            return f"[{value}]"
    if get_origin(hint) is not Literal:
        return None
    if not isinstance(value, str) and str(value) in get_args(hint):
        return f"'{value}'"  # text, as YAML writes it
    return Typo(str(value), tuple(map(str, get_args(hint))))


def _convert(hint: Any, value: Any) -> tuple[Any, bool]:
    """The value as this type has it, and whether it fits."""
    origin = get_origin(hint)
    if origin is Literal:
        return value, value in get_args(hint) and not isinstance(value, bool)
    if origin in (Union, UnionType):
        return _convert_to_any(get_args(hint), value)
    if origin is list:
        if not isinstance(value, list | tuple):
            return None, False
        (item_type,) = get_args(hint)
        items = [_value(item_type, item, "") for item in value]
        return [item for item, _ in items], not any(problems for _, problems in items)
    if origin is dict or hint is dict:
        return value, isinstance(value, dict)
    return _convert_scalar(hint, value)


def _convert_to_any(options: Iterable[Any], value: Any) -> tuple[Any, bool]:
    """By the first of the types that the value fits."""
    for option in options:
        converted, fits = _convert(option, value)
        if fits:
            return converted, True
    return None, False


def _convert_scalar(scalar_type: Any, value: Any) -> tuple[Any, bool]:
    if scalar_type is NoneType:
        return None, value is None
    if scalar_type is bool:
        return value, isinstance(value, bool)
    if isinstance(value, bool):
        return None, False
    if scalar_type is float:
        return _convert_float(value)
    return value, isinstance(value, scalar_type)


def _convert_float(value: Any) -> tuple[float | None, bool]:
    if not isinstance(value, int | float):
        return None, False
    try:
        return float(value), math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return None, False


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
