"""Fields that were added to a schema: what older configurations without them mean.

A field added later carries ``Neutral(value)`` in ``Annotated``.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints


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
