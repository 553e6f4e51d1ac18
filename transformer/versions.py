"""Fields that were added or renamed: the meaning of older configurations without them, or with another name.

A field added after a release carries ``Neutral(value)``, a renamed one ``Formerly("name")``, in ``Annotated``.
"""

from collections.abc import Hashable, Mapping
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


@dataclass(frozen=True)
class Formerly:
    """The first name of the field; it is still read."""

    name: str


Marker = TypeVar("Marker", Neutral, Formerly)


def marker(hint: Any, kind: type[Marker]) -> Marker | None:
    """The marker of a field's type, if it has one."""
    extra = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    return next((each for each in extra if isinstance(each, kind)), None)


def current_names(cls: type, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Nested plain data of ``cls`` with every former name replaced. If both names are present, neither changes."""
    hints, current = field_types(cls), dict(tree)
    for name, hint in hints.items():
        former = marker(hint, Formerly)
        if former and former.name in current and name not in current:
            current[name] = current.pop(former.name)
        if is_dataclass(hint) and isinstance(current.get(name), Mapping):
            current[name] = current_names(hint, current[name])  # type: ignore[arg-type]
    return current


def current_key(cls: type, key: str) -> str:
    """A dotted key under its current name."""
    name, _, inner = key.partition(".")
    hints = field_types(cls)
    for field, hint in hints.items():
        former = marker(hint, Formerly)
        name = field if former and former.name == name and name not in hints else name
    if inner and is_dataclass(hints.get(name)):
        inner = current_key(hints[name], inner)
    return f"{name}.{inner}" if inner else name


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
    return {name: marker(hint, Neutral) for name, hint in field_types(cast(type, cls)).items()}


def under_first_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of fields of ``cls`` under the fields' first names, so a renamed field changes no key and no file name."""
    hints = field_types(cls)
    first = {name: former.name for name, hint in hints.items() if (former := marker(hint, Formerly))}
    return {first.get(name, name): value for name, value in values.items()}


def neutral_values(cls: type) -> dict[str, Any]:
    """The neutral values of a flat dataclass, by field."""
    hints = field_types(cls)
    return {name: neutral.value for name, hint in hints.items() if (neutral := marker(hint, Neutral))}


def added_later(settings: Any) -> dict[str, Any]:
    """The later-added fields whose value differs from the neutral one."""
    neutral = neutral_values(type(settings))
    return {name: value for name, value in settled(settings).items() if name in neutral}
