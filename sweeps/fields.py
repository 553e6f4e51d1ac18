"""Fields of dataclasses that state what they allow and what they are for; and plain data turned
into them.

``Annotated[int, Range(1)]`` and ``Literal["fp32", "bf16"]`` state what a field allows. A role such
as ``Scores()`` tells what it is for; a field without one decides what is trained. A field that was
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
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from sweeps.problems import UNKNOWN_KEY, Problem, nearest

Role = TypeVar("Role")


def field_types(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields with all that ``Annotated`` adds."""
    return _field_types(cls)


@cache
def _field_types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def role_of(hint: Any, role: type[Role]) -> Role | None:
    """What ``Annotated`` adds of this kind to a field's type."""
    return next(
        (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, role)), None
    )


def fields_with(schema: type, role: type[Role]) -> dict[str, Role]:
    """The dotted keys of a schema of groups whose fields have this role."""
    found: dict[str, Role] = {}
    for group, kind in field_types(schema).items():
        if is_dataclass(kind) and isinstance(kind, type):
            inner = field_types(kind).items()
            found |= {
                f"{group}.{name}": each
                for name, hint in inner
                if (each := role_of(hint, role)) is not None
            }
    return found


@dataclass(frozen=True)
class Neutral:
    """What the code did before the field existed: a configuration without the field means this
    value."""

    value: Any


def neutral_values(cls: type) -> dict[str, Any]:
    """The neutral values of a flat dataclass, by field."""
    found = {name: role_of(hint, Neutral) for name, hint in field_types(cls).items()}
    return {name: neutral.value for name, neutral in found.items() if neutral}


def settled(settings: Any) -> dict[str, Any]:
    """The fields of a flat dataclass, without those at their neutral value; older versions agree on
    the rest."""
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
    """The field only changes how a trained model is scored: with another value, trials are scored
    again."""


@dataclass(frozen=True)
class Observes:
    """The field only changes how training is watched and saved."""


@dataclass(frozen=True)
class Fingerprinted:
    """The field is part of the data's fingerprint, which decides training in its place.

    ``place``: it only locates the data, and may differ from one machine to another. ``lasting``: a
    study records it.
    """

    place: bool = False
    lasting: bool = True


@dataclass(frozen=True)
class Seed:
    """The field holds the trial's seed, which a sweep sets."""


@dataclass(frozen=True)
class Symbol:
    """How tables name the field."""

    text: str


@dataclass(frozen=True)
class Named:
    """The field is a mapping from these names, which need not be names of Python, to values of one
    kind."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Divided:
    """A scale divides the field by its divisor ``by``, which may be null if the divisor is
    ``optional``."""

    by: str
    optional: bool = False


T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """Inclusive bounds of a number; ``below`` makes the upper bound exclusive, ``above`` the lower
    one."""

    low: float = -math.inf
    high: float = math.inf
    below: bool = False
    above: bool = False

    def holds(self, value: float) -> bool:
        over = value > self.low if self.above else value >= self.low
        return over and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        if math.isinf(self.high):
            return f"above {self.low:.10g}" if self.above else f"of at least {self.low:.10g}"
        if self.below:
            return f"of at least {self.low:.10g} and below {self.high:.10g}"
        return f"between {self.low:.10g} and {self.high:.10g}"


def parse(cls: type[T], tree: object, prefix: str = "") -> tuple[T | None, list[Problem]]:
    """Build the dataclass ``cls`` from nested plain data, or return every problem with it."""
    if not isinstance(tree, Mapping):
        return None, [Problem(prefix or "configuration", f"is {tree!r}", "must be a group of keys")]
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    hints = field_types(cls)
    problems = [_unknown(prefix, str(key), known) for key in tree if key not in known]
    values: dict[str, Any] = {}
    for name, field in known.items():
        if name in tree:
            values[name], found = _value(hints[name], tree[name], _join(prefix, name))
            problems += found
        elif neutral := role_of(hints[name], Neutral):
            values[name] = neutral.value
        elif field.default is MISSING and field.default_factory is MISSING:
            problems.append(Problem(_join(prefix, name), "is missing", "must be given"))
    return (cls(**values), []) if not problems else (None, problems)


def _mapping(names: Named, kind: Any, tree: object, prefix: str) -> tuple[Any, list[Problem]]:
    """A field that is ``Named``: its values, or every problem with them."""
    if not isinstance(tree, Mapping):
        return None, [Problem(prefix, f"is {_show(tree)}", "must be a group of keys")]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for key, value in tree.items():
        if key not in names.names:
            problems.append(_unknown(prefix, str(key), names.names))
            continue
        values[key], wrong = _value(kind, value, _join(prefix, key))
        problems += wrong
    return (values, []) if not problems else (None, problems)


def keys(cls: type, prefix: str = "") -> dict[str, Any]:
    """Every dotted leaf key that ``cls`` allows, with its type without rules."""
    hints, found = get_type_hints(cls), dict[str, Any]()
    for field in fields(cls):
        key, kind = _join(prefix, field.name), hints[field.name]
        if is_dataclass(kind) and isinstance(kind, type):
            found |= keys(kind, key)
        elif names := role_of(field_types(cls)[field.name], Named):
            found |= {_join(key, name): get_args(kind)[1] for name in names.names}
        else:
            found[key] = kind
    return found


def _unknown(prefix: str, key: str, known: Iterable[str]) -> Problem:
    near = nearest(key, known)
    where = f"under {prefix} are " if prefix else "are "
    return Problem(
        _join(prefix, key),
        UNKNOWN_KEY,
        f"keys {where}{', '.join(known)}",
        near and _join(prefix, near),
    )


def _value(kind: Any, value: Any, key: str) -> tuple[Any, list[Problem]]:
    if is_dataclass(kind) and isinstance(kind, type):
        return parse(kind, value, key)
    rules: tuple[Range, ...] = ()
    if names := role_of(kind, Named):
        return _mapping(names, get_args(get_args(kind)[0])[1], value, key)
    if get_origin(kind) is Annotated:
        kind, *extra = get_args(kind)
        rules = tuple(each for each in extra if isinstance(each, Range))
    converted, fits = _convert(kind, value)
    if fits and (converted is None or all(rule.holds(converted) for rule in rules)):
        return converted, []
    near = nearest(str(value), map(str, get_args(kind))) if get_origin(kind) is Literal else None
    if not isinstance(value, list | dict) and _convert(kind, [value])[1]:
        near = f"[{value}]"
    return converted, [Problem(key, f"is {_show(value)}", f"must be {_name(kind, rules)}", near)]


def _convert(kind: Any, value: Any) -> tuple[Any, bool]:
    origin = get_origin(kind)
    if origin is Literal:
        return value, value in get_args(kind) and not isinstance(value, bool)
    if origin in (Union, UnionType):
        attempts = [_convert(option, value) for option in get_args(kind)]
        return next(((converted, True) for converted, fits in attempts if fits), (None, False))
    if origin is list:
        if not isinstance(value, list | tuple):
            return None, False
        items = [_value(get_args(kind)[0], item, "") for item in value]
        return [item for item, _ in items], not any(problems for _, problems in items)
    if origin is dict or kind is dict:
        return value, isinstance(value, dict)
    return _convert_scalar(kind, value)


def _convert_scalar(kind: Any, value: Any) -> tuple[Any, bool]:
    if kind is NoneType:
        return None, value is None
    if kind is bool:
        return value, isinstance(value, bool)
    if isinstance(value, bool):
        return None, False
    if kind is float:
        return _convert_float(value)
    return value, isinstance(value, kind)


def _convert_float(value: Any) -> tuple[float | None, bool]:
    if not isinstance(value, int | float):
        return None, False
    try:
        return float(value), math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return None, False


def _name(kind: Any, rules: tuple[Range, ...] = ()) -> str:
    names = {
        int: "a whole number",
        float: "a number",
        str: "a string",
        bool: "true or false",
        NoneType: "null",
        dict: "a group of keys",
    }
    origin = get_origin(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if origin in (Union, UnionType):
        return " or ".join(_name(option) for option in get_args(kind))
    if origin is list:
        inner = get_args(kind)[0]
        extra = get_args(inner)[1:] if get_origin(inner) is Annotated else ()
        inner = get_args(inner)[0] if extra else inner
        return f"a list, each {_name(inner, extra)}"
    return names.get(origin or kind, str(kind)) + "".join(f" {rule}" for rule in rules)


def _show(value: object) -> str:
    return "null" if value is None else f'"{value}"' if isinstance(value, str) else str(value)


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name
