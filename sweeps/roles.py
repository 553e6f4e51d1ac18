"""What a field of a schema is for, in ``Annotated``: what it decides, what a scale does to it, its symbol in tables.

A field without a role decides what is trained.
"""

from dataclasses import dataclass, is_dataclass
from typing import Any, TypeVar, get_args, get_origin

from sweeps.versions import field_types


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
