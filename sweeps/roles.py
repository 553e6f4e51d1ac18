"""What a field of a schema is for, in ``Annotated``: what it decides, what a scale does to it, its symbol in tables.

A field without a role decides what is trained. A field that was added later carries ``Neutral(value)``: what older
configurations without it mean."""

from collections.abc import Hashable
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar, cast, get_args, get_origin, get_type_hints


def field_types(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields with all that ``Annotated`` adds."""
    return _field_types(cls)


@cache
def _field_types(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


@dataclass(frozen=True)
class Neutral:
    """What the code did before the field existed: a configuration without the field means this value."""

    value: Any


def neutral_of(hint: Any) -> Neutral | None:
    """The neutral value of a field's type, if it has one."""
    extra = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in extra if isinstance(each, Neutral)), None)


def settled(settings: Any) -> dict[str, Any]:
    """The fields of a flat dataclass, without those at their neutral value; older versions agree on the rest."""
    neutrals = _neutrals(cast(Hashable, type(settings)))
    return {
        name: getattr(settings, name)
        for name, neutral in neutrals.items()
        if neutral is None or getattr(settings, name) != neutral.value
    }


@cache
def _neutrals(cls: Hashable) -> dict[str, Neutral | None]:
    return {name: neutral_of(hint) for name, hint in field_types(cast(type, cls)).items()}


def neutral_values(cls: type) -> dict[str, Any]:
    """The neutral values of a flat dataclass, by field."""
    return {name: neutral.value for name, neutral in _neutrals(cast(Hashable, cls)).items() if neutral}


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


Role = TypeVar("Role")


def fields_with(schema: type, role: type[Role]) -> dict[str, Role]:
    """The dotted keys of a schema of groups whose fields have this role."""
    found: dict[str, Role] = {}
    for group, kind in field_types(schema).items():
        if is_dataclass(kind) and isinstance(kind, type):
            inner = field_types(kind).items()
            found |= {f"{group}.{name}": each for name, hint in inner if (each := role_of(hint, role)) is not None}
    return found


def role_of(hint: Any, role: type[Role]) -> Role | None:
    extra = get_args(hint)[1:] if get_origin(hint) is not None else ()
    return next((each for each in extra if isinstance(each, role)), None)
