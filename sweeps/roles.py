"""What a field of a schema is for, in ``Annotated``: what it decides, what a scale does to it, its symbol in tables.

A field without a role decides what is trained. A field that was added later carries ``Neutral(value)``: what older
configurations without it mean."""

from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, TypeVar, get_type_hints

Role = TypeVar("Role")


def field_types(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields with all that ``Annotated`` adds."""
    return _field_types(cls)


@cache
def _field_types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def role_of(hint: Any, role: type[Role]) -> Role | None:
    """What ``Annotated`` adds of this kind to a field's type."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, role)), None)


def fields_with(schema: type, role: type[Role]) -> dict[str, Role]:
    """The dotted keys of a schema of groups whose fields have this role."""
    found: dict[str, Role] = {}
    for group, kind in field_types(schema).items():
        if is_dataclass(kind) and isinstance(kind, type):
            inner = field_types(kind).items()
            found |= {f"{group}.{name}": each for name, hint in inner if (each := role_of(hint, role)) is not None}
    return found


@dataclass(frozen=True)
class Neutral:
    """What the code did before the field existed: a configuration without the field means this value."""

    value: Any


def neutral_values(cls: type) -> dict[str, Any]:
    """The neutral values of a flat dataclass, by field."""
    found = {name: role_of(hint, Neutral) for name, hint in field_types(cls).items()}
    return {name: neutral.value for name, neutral in found.items() if neutral}


def settled(settings: Any) -> dict[str, Any]:
    """The fields of a flat dataclass, without those at their neutral value; older versions agree on the rest."""
    neutral = neutral_values(type(settings))
    values = {name: getattr(settings, name) for name in field_types(type(settings))}
    return {name: value for name, value in values.items() if name not in neutral or value != neutral[name]}


def added_later(settings: Any) -> dict[str, Any]:
    """The later-added fields whose value differs from the neutral one."""
    neutral = neutral_values(type(settings))
    return {name: value for name, value in settled(settings).items() if name in neutral}


@dataclass(frozen=True)
class Scores:
    """The field only changes how a trained model is scored: with another value, trials are scored again."""


@dataclass(frozen=True)
class Observes:
    """The field only changes how training is watched and saved."""


@dataclass(frozen=True)
class Fingerprinted:
    """The field is part of the data's fingerprint, which decides training in its place.

    ``place``: it only locates the data, and may differ from one machine to another. ``lasting``: a study records it.
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
class Divided:
    """A scale divides the field by its divisor ``by``, which may be null if the divisor is ``optional``."""

    by: str
    optional: bool = False
